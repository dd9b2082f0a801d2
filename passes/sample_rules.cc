#include "passes/sample_rules.h"

#include <algorithm>

#include "ir/dim_bounds.h"
#include "ir/interval.h"

namespace rannc::passes {

using ir::Dim;
using ir::Graph;

Result<void> check_sample_index(const Graph& graph, TaskId task) {
  const ir::OpInfo& op = graph.op(task);
  if (op.picks == nullptr) return {};
  const auto in = graph.inputs(task);
  const ir::ValueType& data = graph.type(in[0]);
  if (!data.batch.has_batch()) return {};
  const std::vector<const ir::ValueType*> types = ir::type_list(graph, in);
  const auto component = op.picks({op, types, graph.attributes(task), graph.batch_symbol()}, data.batch.axis);
  if (!component) return {};
  const auto index = ir::Intervals(graph).of(in[1], *component);
  const Dim& inner = data.batch.inner;
  if (index && data.batch.outer == Dim(1) && index->factor == inner && ir::never_negative(index->low) &&
      ir::never_negative(inner - Dim(1) - index->high)) {
    return {};
  }
  return error(graph.location(task), op.name + " picks samples along axis " + std::to_string(data.batch.axis) + " of " +
                                         ir::str(*data.shape) + " by %" + std::string(graph.value(in[1]).name) +
                                         ", which is not shown to hold each sample's own number");
}

namespace {

// Outputs are put together from those of micro-batches by their samples' axis.
Result<void> check_given(const Graph& graph, TaskId task, ValueId sum) {
  if (std::find(graph.outputs().begin(), graph.outputs().end(), sum) == graph.outputs().end()) return {};
  return error(graph.location(task), std::string(graph.op(task).name) + " makes %" +
                                         std::string(graph.value(sum).name) +
                                         " a sum over the samples of a micro-batch, which can be a loss, but not be "
                                         "given out");
}

// What helps where the sum is the model's own loss.
Diagnostic with_advice(Diagnostic failure, const Graph& graph) {
  if (!graph.losses().empty()) return failure;
  return std::move(failure).note("if an output of the model is its loss, ask for it: --loss 'in_graph(output=NAME)'");
}

// The operand whose samples, or whose sum over them, the task mixes.
std::string what_is_mixed(const Graph& graph, TaskId task) {
  for (const ValueId in : graph.inputs(task)) {
    if (!in.valid()) continue;
    const ir::ValueType& type = graph.type(in);
    if (type.batch.has_batch()) return " over axis " + std::to_string(type.batch.axis) + " of " + ir::str(*type.shape);
    if (type.batch.is_partial()) return " of %" + std::string(graph.value(in).name) + ", a sum over samples,";
  }
  return "";
}

}  // namespace

Result<void> check_no_mix(const Graph& graph, TaskId task) {
  for (const ValueId output : graph.outputs(task)) {
    if (graph.type(output).batch.is_partial()) {
      auto checked = check_given(graph, task, output);
      if (!checked.ok()) return with_advice(checked.diagnostic(), graph);
    }
    if (graph.type(output).batch.mix != ir::Mix::kMixed) continue;
    return with_advice(error(graph.location(task), graph.op(task).name + what_is_mixed(graph, task) +
                                                       " would mix the samples of a micro-batch"),
                       graph);
  }
  return {};
}

}  // namespace rannc::passes
