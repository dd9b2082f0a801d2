/// Determines which values are the same for all samples of a micro-batch.
#pragma once

#include <optional>
#include <vector>

#include "ir/op/interval.h"
#include "ir/op/op.h"

namespace rannc::passes {

/// Follows values from constants onward by operator rules, as GPU compilers separate uniform values from those that
/// differ between threads. Types guarantee that each sample's part of a result depends only on that sample's parts of
/// the operands, at the same places (`ir::BatchLayout`). If these parts are equal for all samples, so are those of the
/// result. Nothing is evaluated. Linear; the graph must not change during the lifetime of this object.
class Uniformity {
 public:
  enum class Kind : uint8_t {
    kVaries,    ///< nothing is known
    kFixed,     ///< has no samples; depends only on constants and on sizes other than the number of samples
    kUniform,   ///< each sample's part is the same, for any number of samples
    kNumbered,  ///< integers: the first sample's part, plus the sample's index times a uniform value
  };

  explicit Uniformity(const ir::Graph& graph);
  Kind of(ValueId value) const { return kinds_[value.index()]; }
  /// Returns whether a task's results are uniform or numbered.
  bool of_samples(TaskId task) const;
  /// Returns the type that a value has for one sample; its own type if it is fixed.
  const ir::ValueType& one_sample(ValueId value) const;
  /// Returns the attributes with which a task computes that part.
  ir::Attributes one_sample(TaskId task) const;

 private:
  Kind kind_of_result(TaskId task);
  Kind kind_of_samples(TaskId task, Kind most);
  Kind kind_of_gathered(TaskId task);
  bool joins_samples(TaskId task) const;
  bool picks_own_sample(TaskId task, int64_t component);
  bool is_uniform(ValueId value, int64_t component) const;
  bool counts_by_sizes_alone(TaskId task) const;
  bool has_clean_type(ValueId value) const;
  bool find_types(TaskId task);

  const ir::Graph& graph_;
  ir::Intervals intervals_;
  std::vector<Kind> kinds_;
  std::vector<std::optional<ir::ValueType>> types_;  // of uniform and numbered values, for one sample
};

}  // namespace rannc::passes
