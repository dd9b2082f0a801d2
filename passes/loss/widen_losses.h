/// Sums losses in at least float32.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// If a loss is summed in 16 bits, sums it in float32 instead: the tasks that carry partial sums and scalars to the
/// numerator are duplicated, with operands cast to float32. Values of single samples keep the type of the file. The
/// seed of the backward pass is then float32, and gradients become 16 bits at the casts.
///
/// Before: losses are attached, types inferred. After: every numerator has its type's `ir::sum_dtype`. Runs after
/// set-precision, which would undo it, and attach-loss, whose sums are wide already, and before remove-dead, which
/// removes the replaced tasks. Linear in the tasks above a loss that carry its sum. Never changes a value with other
/// readers, nor a model of 32 or 64 bits.
/// Example: `tests/passes/golden/widen_losses.rir`.
class WidenLosses : public Pass {
 public:
  std::string_view name() const override { return "widen-losses"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
