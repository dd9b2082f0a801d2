/// Runs forward and backward pass of a joint graph as a program of one device, without LibTorch's tape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/gradient/joint.h"
#include "ir/graph/execution_frequency.h"
#include "runtime/aten/graph_run.h"

namespace rannc::codegen {

/// The oracle for engines: tasks run one by one, as often as `ir::execution_frequency` says. The joint graph must
/// outlive it.
class JointRun {
 public:
  /// Inputs and draws by value of the joint graph; of one micro-batch. Draws count as drawn again, never as kept.
  struct MicroBatch {
    runtime::GraphValues inputs;
    ir::Bindings sizes;  ///< of all symbols, the batch among them
  };
  /// What a step gives: tensors by loss term (a sum over the mini-batch) and by part of a parameter's gradient.
  struct Step {
    std::vector<at::Tensor> numerators;
    std::vector<at::Tensor> gradients;  ///< parallel to `Joint::gradients`, in `ir::sum_dtype`
    int64_t kept_bytes = 0;             ///< of the largest micro-batch: from its forward to its gradient tasks
  };

  /// `leaves`: parameters, buffers and constants by value of the joint graph. Runs what runs once a load.
  static Result<JointRun> load(const ir::Joint& joint, runtime::GraphValues leaves);

  /// `seeds` by loss term: weight / denominator.
  Result<Step> step(std::span<const MicroBatch> micro_batches, const std::vector<double>& seeds);

  /// By task: how often it has run.
  const std::vector<uint64_t>& calls() const { return calls_; }

 private:
  explicit JointRun(const ir::Joint& joint, runtime::GraphValues leaves);
  /// In the order in which they run.
  enum class When : uint8_t { kLoad, kStepBegin, kForward, kGradient, kStepEnd };

  static std::vector<When> moments(const ir::Joint& joint, const std::vector<ir::Frequency>& often);
  Result<void> run(When when, const runtime::GraphRun& with, runtime::GraphValues& values);
  Result<void> micro_batch(const MicroBatch& micro_batch, const std::vector<double>& seeds, Step& step);
  int64_t drop_all_but_kept(runtime::GraphValues& values) const;
  void add_up(const runtime::GraphValues& values, Step& step);

  const ir::Joint* joint_;
  std::vector<ir::Frequency> often_;
  std::vector<When> when_;                 // by task
  std::vector<bool> kept_;                 // by value: made or given per micro-batch, read by gradient tasks
  std::vector<bool> is_total_;             // by value: read by a task that makes it whole
  runtime::GraphValues loaded_, of_step_;  // leaves and what runs once a load; these and what runs once a step
  runtime::GraphValues sums_;              // by value: partial sums that are added up over micro-batches
  std::vector<uint64_t> calls_;
};

/// Bytes that a joint graph keeps of one micro-batch from its forward to its gradient tasks: of values that gradient
/// tasks read, memory that is shared counted once. Symbols have the sizes of `sizes`.
Result<int64_t> kept_bytes(const ir::Joint& joint, const ir::Bindings& sizes);

}  // namespace rannc::codegen
