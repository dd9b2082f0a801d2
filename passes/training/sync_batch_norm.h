/// Makes batch normalization use the samples of all replicas.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Sets the flag `synchronised` of every task that normalises by batch statistics in training. Mean and variance of a
/// micro-batch, and the gradient through them, are then computed over all replicas of the task's stage
/// (torch.nn.SyncBatchNorm). Results do not depend on the number of replicas: they equal those of one process that runs
/// the same micro-batches, or the whole mini-batch if there is one micro-batch.
///
/// Before: the flag is not set, and each replica normalises by its own samples. After: all such tasks have the flag,
/// also in a stage that will have one replica, where it has no effect. Runs after remove-dead, because only tasks that
/// run count, and before mark-constants, which completes the graph. Linear. Never touches normalization by running
/// statistics; a model without any other gets a warning. A task in the body of a branch or loop is an error: replicas
/// that take different paths would wait for each other.
/// Example: `tests/passes/golden/sync_batch_norm.rir`.
class SyncBatchNorm : public Pass {
 public:
  std::string_view name() const override { return "sync-batch-norm"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
