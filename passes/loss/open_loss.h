/// Takes a loss that a model computes itself apart into sums over samples.
#pragma once

#include <utility>

#include "passes/loss/loss_spec.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Each term of kind in_graph names an output that is the loss. It is followed upwards through sums, differences,
/// factors and reshapes of scalars to
///   - a sum over labels or elements (`cross_entropy_sum`, `mse_sum`): taken as it is;
///   - such a cross entropy divided by the number of labels that are not ignored, as frontends write the mean;
///   - the mean of a squared difference from an input;
///   - where types are known, any sum over samples: through operators that are homogeneous in it, a mean over samples
///     as the sum and a number of samples or of an input's elements, a quotient by a count of labels, a sum of class
///     weights at labels or a sum of an input, with what is added to it and what it does not fall below
///     (`internal/divisors.h`);
///   - likewise what has no samples, as a penalty of parameters: it counts once a mini-batch.
/// A mean becomes the sum and an `ir::LossTerm` whose denominator is counted over the mini-batch. The output itself is
/// no output afterwards: the runtime reports the loss. What only the mean needed is dropped.
///
/// Before: as imported. After: the graph has losses. Stands before infer-shapes, since a mean over samples is an error
/// there: it would depend on how the mini-batch is cut. Linear.
/// Anything else that computes the loss is an error that names the task.
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
