/// Rewrites a loss that the model computes itself as sums over samples.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "ir/state/stored_notes.h"
#include "passes/loss/loss_spec.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Each term of kind in_graph names an output that is the loss. It is rewritten as a linear form
/// (`internal/linear_form.h`): sums over samples, each times a coefficient that inputs and sizes determine before a
/// step. The forms of its operands give that of a task: sums, differences, products with a coefficient, quotients,
/// choices, sums and means over samples or other axes, and every operator that is linear in one operand. Coefficients
/// may be any function of counts
/// (`internal/totals_builder.h`). A count that is read within samples becomes an input. What has no samples, such as a
/// penalty on parameters or a number, counts once per mini-batch. Each addend is a term, so that a penalty can be in
/// the stage of its parameters. A zero is no term. What depends on parameters is no count, also if no gradient flows to
/// it.
///
/// The output is then no longer an output, because the runtime reports the loss. Other outputs that combine samples, or
/// depend on their number or index, become metrics if they are functions of sums over samples; else they are left out
/// with a note. Tasks that only these needed are removed.
///
/// Before: as imported, with types. After: the graph has losses and totals. Runs before infer-shapes, which rejects a
/// mean over samples because it depends on how the mini-batch is split. Linear. Any other computation of the loss is an
/// error that names the task and what it reads.
/// Example: `tests/passes/golden/open_loss.rir`.
class OpenLoss : public Pass {
 public:
  /// Compares the loss of the file, which `before` computes as the sum of its outputs times these weights, with the
  /// losses and totals of `after`. Inputs of both are those of the model and what its tasks compute for single samples.
  using Judge = std::function<Result<void>(const ir::Graph& before, const std::vector<double>& weights,
                                           const ir::Graph& after, PassContext& context)>;
  explicit OpenLoss(std::vector<LossSpec> terms, ir::StoredNotes notes = {}, Judge judge = {})
      : terms_(std::move(terms)), notes_(std::move(notes)), judge_(std::move(judge)) {}
  std::string_view name() const override { return "open-loss"; }
  std::string spelling() const override { return "open-loss{" + str(terms_) + "}"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  std::vector<LossSpec> terms_;
  ir::StoredNotes notes_;
  Judge judge_;
};

}  // namespace rannc::passes
