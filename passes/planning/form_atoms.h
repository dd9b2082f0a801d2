/// Builds atomic subcomponents (RaNNC III.A).
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// Makes one atom around each non-constant task, in task order, hence topological. A constant task belongs to every
/// atom that reads it, and to the last atom if it is an output of the graph. This membership follows from the graph
/// (`ir::close_over_constants`). The paper's reason: an atom without a non-constant task would be a stage that only
/// delivers weights. `constant` has an element for each task.
ir::Atoms form_atoms(const ir::Graph& graph, std::vector<bool> constant);

/// Writes `form_atoms` into the context.
///
/// Before: mark-constants and remove-dead have run. If they were skipped, tasks are marked here, and constant tasks
/// without readers are in no atom. After: every other task is in an atom. Linear. Never changes the graph. It is an
/// error if no task depends on an input, because there is nothing to partition.
/// Example: `tests/passes/golden/form_atoms.rir`.
class FormAtoms : public Pass {
 public:
  std::string_view name() const override { return "form-atoms"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
