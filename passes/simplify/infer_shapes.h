/// Infers the types of all values from the types of inputs and stored values.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Whether constant indices must be in range. Some become constant, or get a range, when constants are folded.
enum class ConstantIndices { kUnchecked, kChecked };

/// Runs every task's type rule in order: element type, symbolic shape, batch layout, contents of integer values.
/// Integer constants get their contents first. If two different symbols meet in one axis, they are one size under two
/// names: the first replaces the second everywhere (the batch symbol wins), with a remark.
///
/// Before: inputs, parameters, buffers and constants have types. After: every activation of a known operator has a
/// type. Runs early, because every later pass reads types. Linear in the graph, with one more run for each symbol
/// replaced. Never adds or removes tasks. It is an error at the task if an operand does not fit, if a constant
/// index is out of range, if the operation would mix samples, or if it selects samples by anything but their own index.
/// Example: `tests/passes/golden/infer_shapes.rir`.
class InferShapes : public Pass {
 public:
  explicit InferShapes(ConstantIndices indices = ConstantIndices::kChecked) : indices_(indices) {}
  std::string_view name() const override { return "infer-shapes"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  ConstantIndices indices_;
};

}  // namespace rannc::passes
