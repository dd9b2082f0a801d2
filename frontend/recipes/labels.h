/// Builds losses of class labels from core operators.
#pragma once

#include <cstdint>
#include <optional>

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// Class labels, of which those equal to `ignored` do not count. Tasks that several results share are added once.
class ClassLabels {
 public:
  /// `classes`: i64. `ignored`: absent if every label counts. `weights`: one number per class, or invalid.
  ClassLabels(TaskWriter& writer, ValueId classes, std::optional<int64_t> ignored, ValueId weights)
      : writer_(writer), classes_(classes), ignored_(ignored), weights_(weights) {}

  ValueId classes() const { return classes_; }

  /// Returns the sum of the losses of all labels, of unnormalized log probabilities with classes on `axis`. `smoothing`
  /// of a label belongs to all classes evenly.
  ValueId cross_entropy(ValueId logits, int64_t axis, double smoothing = 0);
  /// Returns the divisor of a mean: the sum of the weights of the labels that count, or their number. The pass
  /// open-loss recognizes a sum divided by it as a mean.
  ValueId divisor(ir::DType dtype);
  /// Returns -weight * log probability of each label, smoothed, in the labels' shape; 0 for labels that do not count.
  /// `axis` is the class axis of `log`.
  ValueId loss_of_each(ValueId log, int64_t axis, double smoothing = 0);

 private:
  static constexpr int64_t kNone = INT64_MIN;  ///< never a label

  /// The attribute `ignore_index` of core.cross_entropy_sum.
  ir::Dim ignore_index() const { return ignored_.value_or(kNone); }
  /// Returns whether each label counts, bool.
  ValueId counted();
  /// Returns the labels with ignored ones replaced by class 0.
  ValueId picked();
  /// Returns `value` with zeros at labels that do not count.
  ValueId where_counted(ValueId value);
  /// Returns the weights of the labels' classes. No gradient flows into the weights: otherwise the lookup would make
  /// them a trained table.
  ValueId weights_at();

  TaskWriter& writer_;
  ValueId classes_;
  std::optional<int64_t> ignored_;
  ValueId weights_, counted_;
};

/// Returns `x`, whose classes are on `axis`, times one number per class. `weights` may be invalid.
ValueId weigh_classes(TaskWriter& writer, ValueId x, ValueId weights, int64_t axis);
/// Returns losses of labels of which a share belongs to all classes evenly. `log`: log probabilities times weights.
ValueId smooth(TaskWriter& writer, ValueId losses, ValueId log, int64_t axis, double smoothing);

}  // namespace rannc::frontend
