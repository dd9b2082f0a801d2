/// What builders of bodies and regions share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Appends a task with one output, whose type is inferred, and returns the output.
Result<ValueId> add_task(ir::Graph& graph, std::string_view op, std::vector<ValueId> operands,
                         ir::Attributes attributes = {}, const std::string& name = {});

/// Returns whether each value is one of `results` or they are computed from it, without those before a value for which
/// `stops(value)` holds. Calls `stops` once for each such value that a task makes.
template <class Stops>
std::vector<bool> needed_values(const ir::Graph& graph, const std::vector<ValueId>& results, Stops&& stops) {
  std::vector<bool> needed(graph.value_count());
  std::vector<ValueId> open = results;
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!value.valid() || needed[value.index()]) continue;
    needed[value.index()] = true;
    const TaskId maker = graph.producer(value);
    if (!maker.valid() || stops(value)) continue;
    for (const ValueId operand : graph.inputs(maker)) open.push_back(operand);
  }
  return needed;
}
inline std::vector<bool> needed_values(const ir::Graph& graph, const std::vector<ValueId>& results) {
  return needed_values(graph, results, [](ValueId) { return false; });
}

}  // namespace rannc::passes
