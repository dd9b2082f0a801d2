#include "passes/parameters/internal/dropped_biases.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

namespace {

using ir::Graph;

/// Which operand of a task is its absent bias.
std::optional<size_t> absent_bias(const Graph& graph, TaskId task) {
  static const ir::Pattern kBiased = ir::op({"linear", "conv", "conv_transpose"});
  if (!ir::match(graph, task, kBiased)) return std::nullopt;
  const ir::OpInfo& op = graph.op(task);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i].name != "bias") continue;
    const auto inputs = graph.inputs(task);
    return i < inputs.size() && inputs[i].valid() ? std::nullopt : std::optional(i);
  }
  return std::nullopt;
}

/// One number for each row of the product, or channel; nothing where their number is not known.
std::optional<ir::ValueType> bias_type(const Graph& graph, TaskId task) {
  static const ir::Pattern kLinear = ir::op("linear");
  const ir::ValueType& made = graph.type(graph.outputs(task)[0]);
  if (!made.shape || made.shape->size() < 2 || !ir::is_float(made.dtype)) return std::nullopt;
  const ir::Dim& count = ir::match(graph, task, kLinear) ? made.shape->back() : (*made.shape)[1];
  if (!count.is_constant()) return std::nullopt;
  return ir::ValueType{made.dtype, ir::Shape{count}, {}, {}};
}

}  // namespace

size_t restore_biases(Graph& graph, const ir::StoredNotes& file) {
  if (file.dropped_biases.empty()) return 0;
  ir::Rewriter rewriter(graph);
  Graph& to = rewriter.graph();
  size_t made = 0;
  for (const TaskId task : graph.tasks()) {
    const auto dropped = file.dropped_biases.find(graph.location(task).node);
    const auto place = dropped == file.dropped_biases.end() ? std::nullopt : absent_bias(graph, task);
    const auto type = place ? bias_type(graph, task) : std::nullopt;
    if (!type) {
      rewriter.copy(task);
      continue;
    }
    ValueId bias = to.find(dropped->second);
    if (bias.valid() && (to.producer(bias).valid() || to.type(bias) != *type)) {  // something else of that name
      rewriter.copy(task);
      continue;
    }
    if (!bias.valid()) {
      const auto bytes = static_cast<size_t>(ir::static_count(*type).value_or(0)) * ir::byte_size(type->dtype);
      bias = to.add_value(ir::ValueKind::kConstant, dropped->second, *type,
                          ir::TensorData::in_memory(std::vector<std::byte>(bytes)));
      ++made;
    }
    std::vector<ValueId> operands;
    for (const ValueId operand : graph.inputs(task)) operands.push_back(rewriter.map(operand));
    operands.resize(std::max(operands.size(), *place + 1));
    operands[*place] = bias;
    rewriter.copy(task, operands);
  }
  if (made > 0) graph = std::move(rewriter).finish();
  return made;
}

}  // namespace rannc::passes
