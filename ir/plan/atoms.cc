#include "ir/plan/atoms.h"

#include <algorithm>

namespace rannc::ir {

bool is_fixed(const Graph& graph, ValueId leaf) {
  const bool draws_samples = graph.kind(leaf) == ValueKind::kRandomInput && graph.type(leaf).batch.has_batch();
  return graph.kind(leaf) != ValueKind::kInput && !draws_samples;
}

std::vector<TaskId> close_over_constants(const Graph& graph, const Atoms& atoms, const std::vector<TaskId>& tasks) {
  std::vector<TaskId> closed(tasks);
  std::vector<bool> taken(graph.task_count());
  for (const TaskId task : tasks) taken[task.index()] = true;
  const auto take_producer = [&](ValueId value) {
    const TaskId producer = value.valid() ? graph.producer(value) : TaskId();
    if (!producer.valid() || taken[producer.index()] || !atoms.constant[producer.index()]) return;
    taken[producer.index()] = true;
    closed.push_back(producer);
  };
  if (!atoms.tasks.empty() && taken[atoms.tasks.back().index()]) {
    for (const ValueId output : graph.outputs()) take_producer(output);
  }
  for (size_t next = 0; next < closed.size(); ++next) {
    const auto inputs = graph.inputs(closed[next]);
    std::for_each(inputs.begin(), inputs.end(), take_producer);
  }
  std::sort(closed.begin(), closed.end());
  return closed;
}

}  // namespace rannc::ir
