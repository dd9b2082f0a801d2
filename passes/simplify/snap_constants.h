/// Restores the exact constants of operators that a file rounded to float32.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Files store numbers as float32: sqrt(2), 0.044715, sqrt(2 / pi), the epsilon of a normalization. In a float64 graph
/// they differ by 1e-8 from those that the model computes with. A number in the pattern of a fused operator that rounds
/// to the same float32 as the operator's constant is replaced by that constant. An epsilon is replaced by the shortest
/// decimal that rounds to it, unless it is a power of two. The factors of an attention and numbers that tasks compute
/// keep the file's values.
///
/// Before: final types. After: float64 results are closer to the model's own. Graphs of float32 or narrower do not
/// change, because the numbers are equal there. Runs before fusions, which require numbers as exact as the graph's
/// element type. Linear. Never changes a number outside of such a pattern.
/// Example: `tests/passes/golden/snap_constants.rir`.
class SnapConstants : public Pass {
 public:
  std::string_view name() const override { return "snap-constants"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
