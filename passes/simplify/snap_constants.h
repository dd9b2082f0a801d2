/// Numbers that a file rounds to float32 become what operators mean by them.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Files hold numbers as float32: sqrt(2), 0.044715, sqrt(2 / pi), the epsilon of a normalisation. In a float64 graph
/// they are off by 1e-8 from what the model computes. Where one stands in the pattern of a fused operator, and rounds
/// to the same float32 as what the operator means, it is taken for that; an epsilon for the shortest decimal that
/// rounds to it, but for powers of two. The factors of an attention and numbers that tasks make stay the file's own.
///
/// Before: final types. After: float64 results lie nearer to the model's own; graphs of float32 and less are what they
/// were, since there the numbers are the same. Stands before fusions, which want numbers as exact as the graph's
/// element type. Linear. Never changes a number that stands anywhere else.
class SnapConstants : public Pass {
 public:
  std::string_view name() const override { return "snap-constants"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
