/// Runs the forward and backward pass of a joint graph on one device, without LibTorch's autograd.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "ir/gradient/joint.h"
#include "ir/graph/execution_frequency.h"
#include "ir/plan/functions.h"
#include "runtime/aten/graph_run.h"

namespace rannc::test {

/// Reference for engines. Tasks run one by one, at the frequency given by `ir::execution_frequency`. The joint graph
/// must outlive it.
class JointRun {
 public:
  /// Inputs and random inputs of one micro-batch, by value of the joint graph. Random inputs count as regenerated,
  /// never as kept.
  struct MicroBatch {
    runtime::GraphValues inputs;
    ir::Bindings sizes;  ///< of all symbols, including the batch symbol
  };
  /// Results of a step: a numerator per loss term, summed over the mini-batch, and the parts of parameter gradients.
  struct Step {
    std::vector<at::Tensor> numerators;
    std::vector<at::Tensor> gradients;  ///< parallel to `Joint::gradients`, in `ir::sum_dtype`
    int64_t kept_bytes = 0;             ///< maximum over micro-batches, from forward to gradient tasks
  };

  /// Runs the tasks with a frequency of once per load. `leaves`: parameters, buffers and constants by value of the
  /// joint graph.
  static Result<JointRun> load(const ir::Joint& joint, runtime::GraphValues leaves);

  /// Runs one step. `seeds`: weight * factor / divisor per loss term.
  Result<Step> step(std::span<const MicroBatch> micro_batches, const std::vector<double>& seeds);

  /// Number of runs so far, by task.
  const std::vector<uint64_t>& calls() const { return calls_; }

 private:
  explicit JointRun(const ir::Joint& joint, runtime::GraphValues leaves);
  /// Runs the tasks of some functions, in order.
  Result<void> run(std::initializer_list<ir::FunctionKind> functions, const runtime::GraphRun& with,
                   runtime::GraphValues& values);
  Result<void> micro_batch(const MicroBatch& micro_batch, const std::vector<double>& seeds, Step& step);
  int64_t drop_all_but_kept(runtime::GraphValues& values) const;
  void add_up(const runtime::GraphValues& values, Step& step);

  const ir::Joint* joint_;
  std::vector<ir::Frequency> often_;
  std::vector<ir::FunctionKind> place_;    // by task
  std::vector<bool> kept_;                 // by value: available per micro-batch, read by gradient tasks
  std::vector<bool> is_total_;             // by value: read by the task that completes the sum
  runtime::GraphValues loaded_, of_step_;  // leaves and results per load; the same plus results per step
  runtime::GraphValues sums_;              // by value: partial sums over micro-batches
  std::vector<uint64_t> calls_;
};

/// Returns the bytes that a joint graph keeps per micro-batch from forward to gradient tasks: those of the values that
/// gradient tasks read, with shared memory counted once. `sizes` binds the symbols.
Result<int64_t> kept_bytes(const ir::Joint& joint, const ir::Bindings& sizes);

}  // namespace rannc::test
