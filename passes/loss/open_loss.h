/// Rewrites a loss that the model computes itself as sums over samples.
#pragma once

#include <utility>

#include "passes/loss/loss_spec.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Each term of kind in_graph names an output that is the loss. The output is traced back through sums, differences,
/// factors and reshapes of scalars to one of these forms:
///   - a sum over labels or elements (`cross_entropy_sum`, `mse_sum`): used as it is;
///   - such a cross entropy divided by the number of labels that are not ignored, as frontends write the mean;
///   - the mean of a squared difference from an input;
///   - where types are known, any sum over samples, through operators that are homogeneous in it. A mean over samples
///     becomes the sum and a number of samples or of an input's elements. Other denominators are a count of labels, a
///     sum of class weights at labels, or a sum of an input, each with an added number and a lower bound
///     (`internal/divisors.h`);
///   - likewise a value without samples, such as a penalty on parameters or a number: it counts once per mini-batch.
/// Each addend is a term, so that a penalty can be in the stage of its parameters. A sum or mean of stacked scalars has
/// addends too. A zero is no term.
///
/// A mean becomes the sum and an `ir::LossTerm` whose denominator is counted over the mini-batch. The output is then no
/// longer an output, because the runtime reports the loss. Other outputs that combine samples are left out with a note,
/// because a micro-batch does not determine them. Tasks that only the mean needed are removed.
///
/// Before: as imported. After: the graph has losses. Runs before infer-shapes, which rejects a mean over samples
/// because it depends on how the mini-batch is split. Linear. Any other computation of the loss is an error that names
/// the task.
class OpenLoss : public Pass {
 public:
  explicit OpenLoss(std::vector<LossSpec> terms) : terms_(std::move(terms)) {}
  std::string_view name() const override { return "open-loss"; }
  std::string spelling() const override { return "open-loss{" + str(terms_) + "}"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  std::vector<LossSpec> terms_;
};

}  // namespace rannc::passes
