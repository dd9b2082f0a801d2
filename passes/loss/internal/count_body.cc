#include "passes/loss/internal/count_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/assumptions.h"
#include "ir/graph/rewriter.h"
#include "passes/loss/internal/body_parts.h"

namespace rannc::passes {

using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Shape;
using ir::ValueKind;

namespace {

Result<void> hold(Graph& graph) {
  for (const ValueId value : graph.values()) {
    const Graph::Value found = graph.value(value);
    if (!found.data.in_file()) continue;
    RANNC_ASSIGN(std::vector<std::byte> bytes, found.data.read());
    graph.set_data(value, ir::TensorData::in_memory(std::move(bytes)));
  }
  return {};
}

// [outer, samples, inner] instead of their product, so that each sample has a row of its own; and the axes to sum.
struct SplitAxes {
  Shape shape, summed;
};
SplitAxes split_axes(const ir::ValueType& type, const ir::Attributes& sum, const std::string& batch) {
  const std::vector<int64_t> given = sum.integers("axes");
  SplitAxes split;
  const auto add = [&](const Dim& extent, bool is_summed) {
    if (is_summed) split.summed.emplace_back(static_cast<int64_t>(split.shape.size()));
    split.shape.push_back(extent);
  };
  for (size_t i = 0; i < type.shape->size(); ++i) {
    if (static_cast<int64_t>(i) == type.batch.axis) {
      if (!(type.batch.outer == Dim(1))) add(type.batch.outer, true);
      add(Dim::symbol(batch), false);
      if (!(type.batch.inner == Dim(1))) add(type.batch.inner, true);
      continue;
    }
    const auto from_end = static_cast<int64_t>(i) - static_cast<int64_t>(type.shape->size());
    const auto is_axis = [&](int64_t each) { return each == static_cast<int64_t>(i) || each == from_end; };
    add((*type.shape)[i], !sum.has("axes") || std::any_of(given.begin(), given.end(), is_axis));
  }
  return split;
}

// The sums of each sample, with the samples on axis 0.
Result<ValueId> sum_rows(Graph& body, ValueId value, const ir::Attributes& sum, Shape shape) {
  const SplitAxes split = split_axes(body.type(value), sum, body.batch_symbol());
  ValueId made = value;
  if (body.type(made).shape != split.shape) {
    RANNC_ASSIGN(made, add_task(body, "reshape", {made}, {{"shape", split.shape}}));
  }
  if (!split.summed.empty()) {
    RANNC_ASSIGN(made, add_task(body, "sum", {made}, {{"axes", split.summed}}));
  }
  if (const int32_t before = body.type(made).batch.axis; before > 0) {
    Shape order = {Dim(before)};
    for (int64_t i = 0; i < static_cast<int64_t>(body.type(made).shape->size()); ++i) {
      if (i != before) order.emplace_back(i);
    }
    RANNC_ASSIGN(made, add_task(body, "permute", {made}, {{"dims", order}}));
  }
  shape.insert(shape.begin(), Dim::symbol(body.batch_symbol()));
  return body.type(made).shape == shape ? Result<ValueId>(made) : add_task(body, "reshape", {made}, {{"shape", shape}});
}

}  // namespace

Result<Graph> count_body(const Graph& graph, ValueId sum) {
  const bool divides = !graph.batch_symbol().empty();
  const ValueId summed = divides ? graph.inputs(graph.producer(sum))[0] : sum;
  if (divides && !graph.type(summed).batch.has_batch()) {
    return error(graph.location(graph.producer(sum)), fmt::format("%{} combines samples", graph.value(summed).name));
  }
  const std::vector<bool> needed = needed_values(graph, {summed});
  const auto& inputs = graph.inputs();
  for (const ValueId leaf : graph.values()) {
    if (!needed[leaf.index()] || graph.kind(leaf) != ValueKind::kInput) continue;
    if (std::find(inputs.begin(), inputs.end(), leaf) != inputs.end()) continue;
    return error(graph.location(graph.producer(sum)),
                 fmt::format("%{} is summed over samples that read %{}, itself known only of a whole mini-batch",
                             graph.value(summed).name, graph.value(leaf).name));
  }
  ir::Rewriter rewriter(graph, needed);
  for (const TaskId task : graph.tasks()) {
    const auto outputs = graph.outputs(task);
    if (std::any_of(outputs.begin(), outputs.end(), [&](ValueId made) { return needed[made.index()]; }))
      rewriter.copy(task);
  }
  Graph& body = rewriter.graph();
  body.set_name("");
  for (const ValueId input : graph.inputs()) {
    if (needed[input.index()]) body.add_input(rewriter.map(input));
  }
  ir::drop_unknown_assumptions(body);
  for (const ValueId leaf : graph.values()) {
    if (!needed[leaf.index()] || graph.producer(leaf).valid() || graph.kind(leaf) == ValueKind::kInput) continue;
    body.set_kind(rewriter.map(leaf), ValueKind::kConstant);
  }
  const DType wide = ir::is_float(graph.type(summed).dtype) ? DType::kF64 : DType::kI64;
  ValueId made = rewriter.map(summed);
  if (body.type(made).dtype != wide) {
    RANNC_ASSIGN(made, add_task(body, "cast", {made}, {{"dtype", wide}}));
  }
  if (divides) {
    RANNC_ASSIGN(made, sum_rows(body, made, graph.attributes(graph.producer(sum)), *graph.type(sum).shape));
  }
  body.add_output(made);
  RANNC_TRY(hold(body));
  return std::move(body);
}

}  // namespace rannc::passes
