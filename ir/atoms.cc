#include "ir/atoms.h"

#include <algorithm>

namespace rannc::ir {

std::vector<TaskId> close_over_constants(const Graph& graph, const Atoms& atoms, const std::vector<TaskId>& tasks) {
  std::vector<TaskId> closed(tasks);
  std::vector<bool> taken(graph.task_count());
  for (const TaskId task : tasks) taken[task.index()] = true;
  for (size_t next = 0; next < closed.size(); ++next) {
    for (const ValueId input : graph.inputs(closed[next])) {
      if (!input.valid()) continue;
      const TaskId producer = graph.value(input).producer;
      if (!producer.valid() || taken[producer.index()] || !atoms.constant[producer.index()]) continue;
      taken[producer.index()] = true;
      closed.push_back(producer);
    }
  }
  std::sort(closed.begin(), closed.end());
  return closed;
}

}  // namespace rannc::ir
