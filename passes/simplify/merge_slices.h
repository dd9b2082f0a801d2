/// Replaces slices that together cover a value by one split.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Matches several slices of one value along one axis that follow each other from its beginning to its end: heads of a
/// stacked projection, halves of a rotation, gates. In the backward pass each slice makes a gradient of the full size,
/// mostly zeros, and these are added. A split makes one gradient.
///
/// Before: final types; equal slices are merged. After: the same numbers, bit for bit, under the same names. Runs after
/// the fusions, one of which makes slices, and after the `cse` that follows them. Linear. Never touches slices that
/// overlap, leave a gap, or have a step other than 1.
/// Example: `tests/passes/golden/merge_slices.rir`.
class MergeSlices : public Pass {
 public:
  std::string_view name() const override { return "merge-slices"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
