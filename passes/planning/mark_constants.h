/// Finds the tasks that depend on no input (RaNNC III.A).
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Returns for each task whether it is constant: it reads no input, no random input with samples and no output of a
/// non-constant task. A task that updates running statistics is not constant, because it must run once per micro-batch
/// whatever it reads. A task that reads a random input without samples may be constant: its clones read the same
/// numbers.
///
/// Sizes of inputs are not data. fold-constants has turned them into attributes, so the remaining shape arithmetic
/// reads no input. One sweep, linear.
std::vector<bool> constant_tasks(const ir::Graph& graph);

/// Writes `constant_tasks` into the context.
///
/// Before: fold-constants has run. After: the context records which tasks stages may clone. Never changes the graph.
/// Example: `tests/passes/golden/mark_constants.rir`.
class MarkConstants : public Pass {
 public:
  std::string_view name() const override { return "mark-constants"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
