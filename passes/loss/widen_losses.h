/// Losses are summed in float32 at least.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Where a loss is a sum in 16 bits, the sum is made in float32: the tasks that carry partial sums and scalars to the
/// numerator are made once more, on operands cast to float32. What the model computes of one sample stays in the type
/// that the file has. The seed of the backward pass is float32 then, and gradients become 16 bits behind the casts.
///
/// Before: losses are there, types inferred. After: every numerator is of its type's `ir::sum_dtype`. Stands after
/// set-precision, which would undo it, and attach-loss, whose sums are wide as they come, and before remove-dead, which
/// drops what was replaced. Linear in the tasks above a loss that carry its sum.
/// Never changes a value that something else reads, nor a model of 32 or 64 bits.
class WidenLosses : public Pass {
 public:
  std::string_view name() const override { return "widen-losses"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
