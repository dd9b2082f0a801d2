/// Computes values that depend only on sizes and constants.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// - An operand with known contents becomes the attribute of the same name (`reshape(x, s)` -> `reshape(x) {shape}`),
///   so that shape arithmetic disappears.
/// - A task whose outputs are known integers or booleans becomes a constant. If its contents are sizes, it becomes
///   `full`, which has no operands.
/// - A task that reads only constants becomes a constant. Integers and booleans are computed here, floats by the
///   context's evaluator (if null, such tasks stay). Results that are larger than their operands and than 64 Ki
///   elements stay tasks.
/// - An output that becomes a constant is made by a task, `identity`, because stages return what their tasks make.
/// - Tasks without readers are removed.
///
/// Before: types inferred. After: no task exists only to compute a shape. Runs after infer-shapes and set-precision.
/// Linear in the graph, plus the cost of the folded tasks. Never folds parameters, buffers, random operators, or tasks
/// whose shape depends on a symbol.
/// Example: `tests/passes/golden/fold_constants.rir`.
class FoldConstants : public Pass {
 public:
  std::string_view name() const override { return "fold-constants"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
