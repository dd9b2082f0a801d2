/// Slices that together are a whole become one split.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Heads of a stacked projection, halves of a rotation, gates: several slices of one value along one axis that follow
/// each other from its beginning to its end. Going back each slice makes a gradient of the whole, mostly of zeros, and
/// these are added; a split makes one.
///
/// Before: final types; equal slices are one. After: the same numbers, bit for bit, under the same names. Stands behind
/// fusions, one of which makes slices, and the `cse` behind them. Linear. Never touches slices that overlap, leave
/// something out, or go by steps.
class MergeSlices : public Pass {
 public:
  std::string_view name() const override { return "merge-slices"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
