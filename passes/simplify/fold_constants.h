/// What follows from sizes and constants alone is computed before the model is planned.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// - An operand whose contents are known becomes the attribute of the same name (`reshape(x, s)` -> `reshape(x)
///   {shape}`), so that shape arithmetic vanishes.
/// - A task whose outputs are known integers or booleans becomes a constant; one whose contents are sizes becomes
///   `full`, which reads nothing.
/// - A task of constants alone becomes a constant: integers and booleans are computed here, floats by the context's
///   evaluator (none: such tasks stay). Results larger than their operands and than 64 Ki elements stay tasks.
/// - Tasks that nothing reads any more are dropped.
///
/// Before: types inferred. After: no task is left whose only purpose is a shape. Stands after infer-shapes and
/// set-precision. Linear in the graph, plus the cost of the folded tasks. Never folds parameters, buffers, random
/// operators, or tasks whose shape depends on a symbol.
class FoldConstants : public Pass {
 public:
  std::string_view name() const override { return "fold-constants"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
