#include "tools/compiler/form_atoms.h"

#include <memory>
#include <utility>

#include "passes/manager.h"
#include "passes/planning/form_atoms.h"
#include "passes/planning/mark_constants.h"

namespace rannc::tools {

Result<void> form_atoms(PreparedModel& model) {
  passes::PassManager manager;
  manager.add(std::make_unique<passes::MarkConstants>());
  manager.add(std::make_unique<passes::FormAtoms>());
  passes::PassContext context;
  const passes::RunReport report = manager.run(model.graph, context, {.reproducer = false});
  if (!report.ok()) return *report.failure;
  model.atoms = *std::move(context.atoms);
  return {};
}

}  // namespace rannc::tools
