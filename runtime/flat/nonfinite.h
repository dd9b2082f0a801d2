/// Finds results of tasks that are not finite.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ir/base/ids.h"

namespace rannc::runtime {

struct FlatCode;
struct FlatInstruction;
struct FlatRun;

/// Which values that are not finite a tensor has.
struct Nonfinite {
  bool nan = false, infinite = false;
  bool any() const { return nan || infinite; }
  Nonfinite& operator|=(const Nonfinite& other) {
    nan |= other.nan, infinite |= other.infinite;
    return *this;
  }
};

struct NonfiniteCounts {
  uint64_t elements = 0, nan = 0, infinite = 0;
  bool any() const { return nan > 0 || infinite > 0; }
};
/// Counts elements. Tensors without floating-point numbers have none that count. Waits for the tensor's device.
NonfiniteCounts count_nonfinite(const at::Tensor& tensor);

/// A result that is not finite.
struct FlatNonfinite {
  TaskId task;       ///< of the graph
  bool sum = false;  ///< a sum after the task's result was added to it, instead of a result
  std::vector<int64_t> shape;
  NonfiniteCounts counts;
  Nonfinite inputs;  ///< of the task's operands and constants, and of the sum before
};

/// Examines the results of one run of a flat program, and passes those that are not finite to `FlatRun::nonfinite`.
class NonfiniteWatch {
 public:
  /// `slots`: with the arguments. All arguments outlive it.
  NonfiniteWatch(const FlatCode& code, const FlatRun& run, std::span<const at::Tensor> slots);
  /// To be called around each instruction. `slots`: with the operands; with the results.
  void before(const FlatInstruction& instruction);
  void after(const FlatInstruction& instruction, std::span<const at::Tensor> slots);

 private:
  void examine_sum(const FlatInstruction& instruction);
  Nonfinite of_value(ValueId value) const;
  Nonfinite of_inputs(TaskId task) const;
  Nonfinite of_arguments(const FlatInstruction& instruction) const;
  Nonfinite of_constants(TaskId task) const;

  const FlatCode& code_;
  const FlatRun& run_;
  std::vector<Nonfinite> found_;  ///< by slot
  std::vector<int64_t> slot_of_;  ///< by value; -1: none
  Nonfinite sum_before_;
};

}  // namespace rannc::runtime
