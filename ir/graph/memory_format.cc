#include "ir/graph/memory_format.h"

#include <algorithm>

#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::ir {

namespace {

constexpr size_t kRank = 4;

bool has_rank(const ValueType& type, size_t rank) { return type.shape && type.shape->size() == rank; }

bool changes_order(const Graph& graph, TaskId task) {
  static const Ops kChange{"contiguous"};
  return kChange.contains(graph.op(task));
}

}  // namespace

bool has_memory_format(const Graph& graph, TaskId task) {
  return graph.op(task).attribute(kChannelsLast) != nullptr && has_rank(graph.type(graph.inputs(task)[0]), kRank);
}

bool reads_channels_last(const Graph& graph, const std::vector<bool>& channels_last, TaskId task, size_t operand) {
  const ValueId read = graph.inputs(task)[operand];
  if (operand != 0 || !has_memory_format(graph, task)) return channels_last[read.index()];
  const bool flag = OpAttributes(graph.op(task), graph.attributes(task)).flag(kChannelsLast);
  return flag != changes_order(graph, task);
}

bool is_elementwise(const OpInfo& op) {
  return op.family == "elementwise" || op.family == "functions" || op.family == "grad_elementwise";
}

ValueId operand_like_result(const Graph& graph, TaskId task) {
  const auto& result = graph.type(graph.outputs(task)[0]).shape;
  for (const ValueId operand : graph.inputs(task)) {
    if (operand.valid() && result && graph.type(operand).shape == result) return operand;
  }
  return {};
}

std::vector<ValueId> laid_out_as(const Graph& graph, TaskId task) {
  static const Ops kConcatenation{"concat"};
  const OpInfo& op = graph.op(task);
  const auto operands = graph.inputs(task);
  if (kConcatenation.contains(op)) return {operands.begin(), operands.end()};
  if (!is_elementwise(op) || op.family == "grad_elementwise") return {};
  const ValueId as = operand_like_result(graph, task);
  return as.valid() ? std::vector<ValueId>{as} : std::vector<ValueId>();
}

std::vector<bool> channels_last(const Graph& graph) {
  std::vector<bool> found(graph.value_count());
  for (const TaskId task : graph.tasks()) {
    const ValueId result = graph.outputs(task)[0];
    if (!has_rank(graph.type(result), kRank)) continue;
    if (has_memory_format(graph, task)) {
      found[result.index()] = OpAttributes(graph.op(task), graph.attributes(task)).flag(kChannelsLast);
      continue;
    }
    const std::vector<ValueId> as = laid_out_as(graph, task);
    const bool last = std::all_of(as.begin(), as.end(), [&](ValueId operand) { return found[operand.index()]; });
    found[result.index()] = last && !as.empty();
  }
  return found;
}

}  // namespace rannc::ir
