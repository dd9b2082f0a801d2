/// Types of all values, from the inputs' types and the initializers.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Runs every task's type rule in order: element type, symbolic shape, place of the samples, contents of integer
/// values. Integer constants get their contents first. Two different symbols that meet in one axis are one size under
/// two names: the second is replaced by the first everywhere (the batch symbol wins), with a remark.
///
/// Before: inputs, parameters, buffers and constants have types. After: so has every activation of a known operator.
/// Stands first, since every later pass reads types. Linear in the graph, once more for each symbol replaced.
/// Never adds or drops tasks. An operand that does not fit, an operation that would mix samples, or one that picks
/// samples by anything but their own number, is an error at the task.
class InferShapes : public Pass {
 public:
  std::string_view name() const override { return "infer-shapes"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
