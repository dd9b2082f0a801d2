/// Normalisations by the batch take in the samples of all replicas.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Sets the flag `synchronised` of every task that normalises by its batch in training. Mean and variance of a
/// micro-batch, and the gradient through them, are then those over all replicas of the task's stage
/// (torch.nn.SyncBatchNorm): a run of one micro-batch gives the numbers of one process over the whole mini-batch, one
/// of several those of one process over the same micro-batches, whatever the number of replicas.
///
/// Before: nothing says it, and each replica normalises by its own samples. After: all such tasks do, also where a
/// stage will have one replica, for which it changes nothing. Stands after remove-dead, since only what runs counts,
/// and before mark-constants, which closes the graph. Linear. Never touches a normalisation by running statistics: a
/// model without any other gets a warning. One in the body of a branch or loop is an error: replicas that take
/// different ways would wait for each other.
class SyncBatchNorm : public Pass {
 public:
  std::string_view name() const override { return "sync-batch-norm"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
