#include "passes/sample_rules.h"

#include <algorithm>

#include "ir/dim_bounds.h"
#include "ir/interval.h"

namespace rannc::passes {

using ir::Dim;
using ir::Graph;

Result<void> check_sample_index(const Graph& graph, TaskId task) {
  const std::string_view name = graph.op(task).name;
  if (name != "core.gather" && name != "core.gather_nd") return {};
  const auto in = graph.inputs(task);
  const ir::ValueType& data = graph.type(in[0]);
  if (!data.batch.has_batch()) return {};
  int64_t component = -1;
  if (name == "core.gather") {
    const int64_t given = graph.attributes(task).integer("axis");
    if ((given < 0 ? given + static_cast<int64_t>(data.shape->size()) : given) != data.batch.axis) return {};
  } else {
    const int64_t first = graph.attributes(task).integer("batch_dims");
    component = data.batch.axis - first;
    if (component < 0 || component >= graph.type(in[1]).shape->back().constant()) return {};
  }
  const auto index = ir::Intervals(graph).of(in[1], component);
  const Dim& inner = data.batch.inner;
  if (index && data.batch.outer == Dim(1) && index->factor == inner && ir::never_negative(index->low) &&
      ir::never_negative(inner - Dim(1) - index->high)) {
    return {};
  }
  return error(graph.location(task), std::string(name) + " picks samples along axis " +
                                         std::to_string(data.batch.axis) + " of " + ir::str(*data.shape) + " by %" +
                                         std::string(graph.value(in[1]).name) +
                                         ", which is not shown to hold each sample's own number");
}

namespace {

// Sums that a loss consists of: only the runtime, which adds up those of all micro-batches, may read one.
Result<void> check_loss_sum(const Graph& graph, TaskId task) {
  const auto in = graph.inputs(task);
  const bool sampled = std::any_of(in.begin(), in.end(), [&](ValueId id) { return graph.type(id).batch.has_batch(); });
  const ValueId sum = graph.outputs(task)[0];
  bool read = std::find(graph.outputs().begin(), graph.outputs().end(), sum) != graph.outputs().end();
  graph.for_each_use(sum, [&](Graph::Use) { read = true; });
  if (!sampled || !read) return {};
  return error(graph.location(task), std::string(graph.op(task).name) + " makes %" + std::string(graph.value(sum).name) +
                                         " a sum over the samples of a micro-batch, which can be a loss, but neither be "
                                         "given out nor read by a task");
}

// What helps where the sum is the model's own loss.
Diagnostic with_advice(Diagnostic failure, const Graph& graph) {
  if (!graph.losses().empty()) return failure;
  return std::move(failure).note("if an output of the model is its loss, ask for it: --loss 'in_graph(output=NAME)'");
}

}  // namespace

Result<void> check_no_sum_over_samples(const Graph& graph, TaskId task) {
  const std::string_view name = graph.op(task).name;
  if (name == "core.cross_entropy_sum" || name == "core.mse_sum") {
    auto checked = check_loss_sum(graph, task);
    return checked.ok() ? checked : Result<void>(with_advice(checked.diagnostic(), graph));
  }
  if (name != "core.sum" && name != "core.mean") return {};
  const ir::ValueType& from = graph.type(graph.inputs(task)[0]);
  if (!from.batch.has_batch() || graph.type(graph.outputs(task)[0]).batch.has_batch()) return {};
  return with_advice(error(graph.location(task), std::string(name) + " over axis " + std::to_string(from.batch.axis) +
                                                     " of " + ir::str(*from.shape) +
                                                     " would mix the samples of a micro-batch"),
                     graph);
}

}  // namespace rannc::passes
