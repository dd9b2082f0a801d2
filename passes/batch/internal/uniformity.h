/// Which values are the same for each sample of a micro-batch.
#pragma once

#include <optional>
#include <vector>

#include "ir/op/interval.h"
#include "ir/op/op.h"

namespace rannc::passes {

/// Follows values from constants on, by rules of operators, as compilers for GPUs tell uniform values from those that
/// differ between threads. That each sample's part of a result follows from that sample's parts of the operands, at the
/// same places, is what types say (`ir::BatchLayout`); so where these parts are equal for all samples, its are. Nothing
/// is evaluated. Linear; the graph must not change meanwhile.
class Uniformity {
 public:
  enum class Kind : uint8_t {
    kVaries,    ///< nothing is known
    kFixed,     ///< without samples, of constants and sizes but their number alone
    kUniform,   ///< each sample's part is the same, whatever their number
    kNumbered,  ///< integers: what the first sample has, plus the sample's own number times something uniform
  };

  explicit Uniformity(const ir::Graph& graph);
  Kind of(ValueId value) const { return kinds_[value.index()]; }
  /// Whether a task's results are uniform or numbered.
  bool of_samples(TaskId task) const;
  /// What a value is where there is one sample: its own type, where it is fixed.
  const ir::ValueType& one_sample(ValueId value) const;
  /// The attributes of a task that makes that.
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
