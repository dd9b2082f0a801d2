/// Converts the whole model to one float type.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Changes every float type of a model to `target`: inputs, parameters, buffers, constants (bytes are converted,
/// exactly if `target` is wider) and activations. A cast to a float type becomes a cast to `target`. Numeric attributes
/// do not change: they are doubles already.
///
/// Before: any mixture of float types. After: `target` only. Runs before fold-constants, so that constants are computed
/// in the target's precision. What samples add to counts is computed in the file's types, unless `target` is f64. Reads
/// the bytes of every stored value whose type changes. Never touches integers, booleans, or a model that is in `target`
/// already.
/// Example: `tests/passes/golden/set_precision.rir`.
class SetPrecision : public Pass {
 public:
  explicit SetPrecision(ir::DType target) : target_(target) {}
  std::string_view name() const override { return "set-precision"; }
  std::string spelling() const override { return "set-precision{" + std::string(ir::str(target_)) + "}"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  ir::DType target_;
};

}  // namespace rannc::passes
