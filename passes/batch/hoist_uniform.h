/// What is the same for each sample is computed for one.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Exporters expand what is computed from constants to the number of samples first, then compute with it: masks of
/// attention by `gather_nd` at each sample's own number, positions, tables of rotations. Where rules of operators show
/// that each sample's part is the same (`internal/uniformity.h`), the tasks are made for one sample: computed here
/// where that is no more than a few megabytes, else once a micro-batch. An elementwise task takes that part as it is,
/// and broadcasts it; whatever else reads the value reads it expanded.
///
/// Before: final types; shape arithmetic is folded. After: the same numbers but for rounding in another order. Stands
/// behind the first `cse`, so that one mask is made, and before fusions, which want masks that are constants. Linear
/// beside what is computed. Never touches what an input, a parameter, a buffer or a draw reaches, nor what the number
/// of samples is a number in.
class HoistUniform : public Pass {
 public:
  std::string_view name() const override { return "hoist-uniform"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
