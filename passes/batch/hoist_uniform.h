/// Computes values that are the same for all samples once.
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Exporters first expand constants to the number of samples, then compute with them: attention masks by `gather_nd` at
/// each sample's own index, positions, rotation tables. If operator rules prove that each sample's part is the same
/// (`internal/uniformity.h`), the tasks are built for one sample. The part is computed here if it has at most a few
/// megabytes, else once per micro-batch. An elementwise task reads the part and broadcasts it; any other reader reads
/// it expanded.
///
/// Before: final types; shape arithmetic is folded. After: the same numbers except for rounding in another order. Runs
/// after the first `cse`, so that one mask is made, and before fusions, which expect constant masks. Linear, plus what
/// is computed. Never touches values that depend on an input, a parameter, a buffer or a random input, nor values that
/// use the number of samples as a number.
/// Example: `tests/passes/golden/hoist_uniform.rir`.
class HoistUniform : public Pass {
 public:
  std::string_view name() const override { return "hoist-uniform"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
