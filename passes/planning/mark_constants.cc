#include "passes/planning/mark_constants.h"

#include <algorithm>

#include "ir/plan/atoms.h"
#include "ir/state/statistics.h"

namespace rannc::passes {

std::vector<bool> constant_tasks(const ir::Graph& graph) {
  std::vector<bool> constant(graph.task_count());
  const std::vector<bool> statistics = ir::makes_statistics(graph);
  const auto fixed = [&](ValueId id) {
    if (!id.valid()) return true;
    const TaskId maker = graph.producer(id);
    return maker.valid() ? static_cast<bool>(constant[maker.index()]) : ir::is_fixed(graph, id);
  };
  for (const TaskId task : graph.tasks()) {
    const auto inputs = graph.inputs(task);
    constant[task.index()] = !statistics[task.index()] && std::all_of(inputs.begin(), inputs.end(), fixed);
  }
  return constant;
}

Result<Outcome> MarkConstants::run(ir::Graph& graph, PassContext& context) const {
  context.constant = constant_tasks(graph);
  return Outcome{};
}

}  // namespace rannc::passes
