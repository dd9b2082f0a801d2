/// Computes products in 16 bits with float32 parameters.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Casts the float operands of each task to the type in which its operator's entry computes in mixed precision
/// (`ir::Autocast`): a 16-bit type, float32, or the widest type of its operands. The rules are those of
/// `torch.autocast`, with these differences:
/// - A constant that the 16-bit type represents exactly never widens a task: stored, or of one number. Others do:
///   rounding them would scale a whole tensor.
/// - Normalization, recurrent layers, branches, loops and quantization compute in float32.
/// - Graph outputs, losses and running statistics keep their types.
///
/// Parameters stay float32. Their 16-bit copies are tasks of frequency `kStep`, so they are made once per step. Each
/// value is cast to a type at most once; all readers share the copy.
///
/// Before: float32 parameters and activations. After: types inferred again; a task whose operator rejects its new types
/// keeps float32. Runs after the last fusion, whose patterns contain no casts, and before mark-constants. Linear, and
/// reads the constants that meet 16-bit values. A parameter of another float type is an error. Never touches float64
/// values, bodies of branches and loops, or foreign operators.
/// Example: `tests/passes/golden/mixed_precision.rir`.
class MixedPrecision : public Pass {
 public:
  explicit MixedPrecision(ir::DType narrow) : narrow_(narrow) {}
  std::string_view name() const override { return "mixed-precision"; }
  std::string spelling() const override { return "mixed-precision{" + std::string(ir::str(narrow_)) + "}"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  ir::DType narrow_;
};

}  // namespace rannc::passes
