#include "passes/planning/form_atoms.h"

#include "passes/planning/mark_constants.h"

namespace rannc::passes {

ir::Atoms form_atoms(const ir::Graph& graph, std::vector<bool> constant) {
  RANNC_CHECK(constant.size() == graph.task_count()) << "marks of another graph";
  ir::Atoms atoms;
  atoms.constant = std::move(constant);
  atoms.atom_of.resize(graph.task_count());
  for (const TaskId task : graph.tasks()) {
    if (atoms.constant[task.index()]) continue;
    atoms.atom_of[task.index()] = AtomId::from(atoms.tasks.size());
    atoms.tasks.push_back(task);
  }
  return atoms;
}

Result<Outcome> FormAtoms::run(ir::Graph& graph, PassContext& context) const {
  context.atoms = form_atoms(graph, context.constant ? *context.constant : constant_tasks(graph));
  if (!context.atoms->tasks.empty()) return Outcome{};
  return error("no task depends on an input of the model: there is nothing to train or to partition");
}

}  // namespace rannc::passes
