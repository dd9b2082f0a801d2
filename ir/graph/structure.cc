#include "ir/graph/structure.h"

#include "ir/graph/execution_frequency.h"

namespace rannc::ir {

std::vector<GradientRole> gradient_roles(const Graph& graph, const std::vector<bool>& needs_gradient) {
  const std::vector<Frequency> often = execution_frequency(graph);
  std::vector<GradientRole> roles(graph.value_count(), GradientRole::kNone);
  for (const ValueId value : graph.values()) {
    const TaskId producer = graph.producer(value);
    const bool once = producer.valid() && often[producer.index()] != Frequency::kMicroBatch;
    if (graph.kind(value) == ValueKind::kParameter || (once && needs_gradient[value.index()])) {
      roles[value.index()] = GradientRole::kWeight;
    } else if (needs_gradient[value.index()]) {
      roles[value.index()] = GradientRole::kSample;
    }
  }
  return roles;
}

void structural_numbers(const Graph& graph, TaskId task, const std::vector<GradientRole>& roles,
                        std::vector<uint32_t>& numbers) {
  const auto op = uint64_t{reinterpret_cast<uintptr_t>(&graph.op(task))};
  numbers.assign({static_cast<uint32_t>(op), static_cast<uint32_t>(op >> 32), graph.attributes_number(task)});
  for (const ValueId input : graph.inputs(task)) {
    numbers.push_back(input.valid() ? graph.type_number(input) : UINT32_MAX);
    numbers.push_back(input.valid() ? static_cast<uint32_t>(roles[input.index()]) : 0);
  }
}

}  // namespace rannc::ir
