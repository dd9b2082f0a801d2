/// Losses of class labels on core operators.
#pragma once

#include <cstdint>
#include <optional>

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// Class numbers, of which those equal to `ignored` do not count. Adds the tasks that several results share once.
class ClassLabels {
 public:
  /// `classes`: i64. `ignored`: absent if every label counts. `weights`: one number per class, or invalid.
  ClassLabels(TaskWriter& writer, ValueId classes, std::optional<int64_t> ignored, ValueId weights)
      : writer_(writer), classes_(classes), ignored_(ignored), weights_(weights) {}

  ValueId classes() const { return classes_; }
  /// The attribute `ignore_index` of core.cross_entropy_sum.
  ir::Dim ignore_index() const { return ignored_.value_or(kNone); }

  /// Divisor of a mean: the weights of the labels that count, or their number. A sum divided by it is a mean that the
  /// pass open-loss recognizes.
  ValueId divisor(ir::DType dtype);
  /// -weight * log probability of each label, in the labels' shape; 0 for labels that do not count. `axis`: that of the
  /// classes in `log`.
  ValueId loss_of_each(ValueId log, int64_t axis);

 private:
  static constexpr int64_t kNone = INT64_MIN;  ///< a number that is no label

  /// bool: whether a label counts.
  ValueId counted();
  /// Labels of which each is a class.
  ValueId picked();
  /// Zero at labels that do not count.
  ValueId where_counted(ValueId value);
  /// Weights of the labels' classes, without gradient: they are numbers of the loss, and would be trained if they were
  /// looked up as a table.
  ValueId weights_at();

  TaskWriter& writer_;
  ValueId classes_;
  std::optional<int64_t> ignored_;
  ValueId weights_, counted_;
};

}  // namespace rannc::frontend
