/// Builds atomic subcomponents (RaNNC III.A).
#pragma once

#include "passes/pass.h"

namespace rannc::passes {

/// One atom around each task that is not constant, in the order of the tasks, hence topological. Constant tasks are
/// members of every atom that reads them, and of the last atom where the graph gives them out; that membership follows
/// from the graph (`ir::close_over_constants`). The paper's reason: an atom without a non-constant task would be a
/// stage that only delivers weights. `constant` holds a truth value for each task.
ir::Atoms form_atoms(const ir::Graph& graph, std::vector<bool> constant);

/// Writes `form_atoms` into the context.
///
/// Before: mark-constants and remove-dead have run, or were left out: then tasks are marked here, and constant tasks
/// that nothing reads are in no atom. After: every other task is. Linear. Never changes the graph. A model in which
/// nothing depends on an input is an error: there is nothing to divide.
class FormAtoms : public Pass {
 public:
  std::string_view name() const override { return "form-atoms"; }
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;
};

}  // namespace rannc::passes
