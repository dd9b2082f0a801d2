/// One float type for the whole model.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Turns every float type of a model into `target`: inputs, parameters, buffers, constants (bytes converted, exactly
/// where `target` is wider) and activations; a cast to a float type becomes a cast to `target`. Attributes that are
/// numbers stay what they are: they are doubles already.
///
/// Before: any mixture of float types. After: `target` alone. Stands before fold-constants, so that constants are
/// computed in the target's precision. Reads the bytes of every initializer whose type changes.
/// Never touches integers, booleans, or a model that is in `target` already.
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
