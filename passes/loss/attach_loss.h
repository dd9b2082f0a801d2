/// Adds the training loss to a model's outputs.
#pragma once

#include <utility>

#include "passes/loss/loss_spec.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Adds for each term an input `labels/<name>` of the right symbolic shape, tasks that sum the term over the samples of
/// a micro-batch, and an `ir::LossTerm`. The sum is divided by a count of the labels of the whole mini-batch
/// (`ir::Totals`). The loss and its gradient therefore do not depend on how the mini-batch is split; averaging the
/// means of uneven micro-batches would.
///
/// Before: types are inferred. After: the graph has losses and totals; its outputs are unchanged. Runs after
/// fold-constants and before remove-dead. Costs a constant number of tasks per term and their type inference. Never
/// touches existing losses, nor terms of kind in_graph, which open-loss handles before types are inferred. It is an
/// error if an output does not exist, has no samples in a model with a batch, or is not float.
/// Example: `tests/passes/golden/attach_loss.rir`.
class AttachLoss : public Pass {
 public:
  explicit AttachLoss(std::vector<LossSpec> terms) : terms_(std::move(terms)) {}
  std::string_view name() const override { return "attach-loss"; }
  std::string spelling() const override { return "attach-loss{" + str(terms_) + "}"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  std::vector<LossSpec> terms_;
};

/// Returns the output that a loss refers to: the one of that name, or the only one if the name is empty.
Result<ValueId> find_output(const ir::Graph& graph, const LossSpec& term);

}  // namespace rannc::passes
