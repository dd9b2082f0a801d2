/// Puts the training loss under a model's outputs.
#pragma once

#include <utility>

#include "passes/loss/loss_spec.h"
#include "passes/pass.h"

namespace rannc::passes {

/// For each term: an input `labels/<name>` of the right symbolic shape, tasks that
/// sum the term over the samples of a micro-batch, and an `ir::LossTerm`. The sum is divided by a denominator counted
/// from the labels of the whole mini-batch, so that the loss and its gradient do not depend on how the mini-batch is
/// cut (averaging the means of uneven micro-batches would).
///
/// Before: types are inferred. After: the graph has losses; its outputs are what they were. Stands after
/// fold-constants and before remove-dead. Work per term only, beside the type rules of the new tasks.
/// Never touches losses that are there, nor terms of kind in_graph, which open-loss takes before types are inferred.
/// An output that is not there, that has no samples in a model that has a batch, or that is no float, is an error by
/// name.
class AttachLoss : public Pass {
 public:
  explicit AttachLoss(std::vector<LossSpec> terms) : terms_(std::move(terms)) {}
  std::string_view name() const override { return "attach-loss"; }
  std::string spelling() const override { return "attach-loss{" + str(terms_) + "}"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  std::vector<LossSpec> terms_;
};

/// The output a loss speaks of: the one of that name, or the only one where the name is empty.
Result<ValueId> find_output(const ir::Graph& graph, const LossSpec& term);

}  // namespace rannc::passes
