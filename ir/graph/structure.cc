#include "ir/graph/structure.h"

namespace rannc::ir {

void structural_numbers(const Graph& graph, TaskId task, const std::vector<bool>& needs_gradient,
                        std::vector<uint32_t>& numbers) {
  const auto op = uint64_t{reinterpret_cast<uintptr_t>(&graph.op(task))};
  numbers.assign({static_cast<uint32_t>(op), static_cast<uint32_t>(op >> 32), graph.attributes_number(task)});
  for (const ValueId input : graph.inputs(task)) {
    const bool trained = input.valid() && graph.kind(input) == ValueKind::kParameter;
    numbers.push_back(input.valid() ? graph.type_number(input) : UINT32_MAX);
    numbers.push_back(trained ? 2 : input.valid() && needs_gradient[input.index()] ? 1 : 0);
  }
}

}  // namespace rannc::ir
