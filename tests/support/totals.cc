#include "tests/support/totals.h"

#include <fmt/format.h>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::testing {

using ir::DType;
using ir::Graph;

namespace {

ValueId typed(Graph& graph, ValueId value) {
  ir::infer_types(graph, graph.producer(value)).value();
  return value;
}

std::string text(const Graph& graph, ValueId value, const std::vector<ir::Body>& counts) {
  static const ir::Ops kLeftOut = {"cast", "reshape", "identity", "expand", "permute", "stop_gradient"}, kSum = "sum",
                       kFull = "full";
  const TaskId task = graph.producer(value);
  if (!task.valid() && graph.kind(value) == ir::ValueKind::kInput) {
    const std::string name(graph.value(value).name);
    if (!name.starts_with("count.")) return name;
    const Graph& body = counts.at(static_cast<size_t>(std::stoi(name.substr(6)))).graph();
    const std::string row = text(body, body.outputs()[0], counts);
    return row.starts_with("sum(") || row.starts_with("size(") ? row : "sum(" + row + ")";
  }
  const bool single = graph.type(value).shape && ir::element_count(*graph.type(value).shape) == ir::Dim(1);
  if (const auto number = ir::scalar_constant(graph, value); single && number) return fmt::format("{:g}", *number);
  if (!task.valid()) return "[…]";
  const auto in = graph.inputs(task);
  if (kLeftOut.contains(graph.op(task))) return text(graph, in[0], counts);
  if (kFull.contains(graph.op(task))) {
    return fmt::format("size({})", std::get<ir::Dim>(*graph.attributes(task).find("value")).str());
  }
  std::string operands;
  for (const ValueId operand : in) {
    if (operand.valid()) operands += (operands.empty() ? "" : ", ") + text(graph, operand, counts);
  }
  return graph.op(task).name.substr(graph.op(task).name.find('.') + 1) + "(" + operands + ")";
}

}  // namespace

uint32_t count_elements(Graph& graph, ValueId input,
                        const std::function<ValueId(Graph& body, ValueId elements)>& each) {
  ir::Totals totals = graph.totals();
  Graph body;
  body.set_batch_symbol(graph.batch_symbol());
  const ValueId copy = body.add_value(ir::ValueKind::kInput, graph.value(input).name, graph.type(input));
  body.add_input(copy);
  ValueId made = typed(body, body.add(ir::core("cast"), {copy}, {{"dtype", DType::kBool}}));
  const ValueId any = typed(body, body.add(ir::core("logical_not"), {made}));
  made = each ? each(body, copy) : typed(body, body.add(ir::core("logical_or"), {made, any}));
  made = typed(body, body.add(ir::core("cast"), {made}, {{"dtype", DType::kI64}}));
  ir::Shape axes;
  for (size_t axis = 1; axis < graph.type(input).shape->size(); ++axis) axes.emplace_back(static_cast<int64_t>(axis));
  if (!axes.empty()) made = typed(body, body.add(ir::core("sum"), {made}, {{"axes", axes}}));
  body.add_output(made);
  totals.counts.emplace_back(std::move(body));
  Graph coefficients = totals.coefficients ? totals.coefficients->graph().clone() : Graph();
  const auto number = static_cast<uint32_t>(coefficients.outputs().size());
  const ValueId count = coefficients.add_value(ir::ValueKind::kInput, fmt::format("count.{}", totals.counts.size() - 1),
                                               {.dtype = DType::kI64, .shape = ir::Shape{}});
  coefficients.add_input(count);
  coefficients.add_output(typed(coefficients, coefficients.add(ir::core("cast"), {count}, {{"dtype", DType::kF64}})));
  totals.coefficients.emplace(std::move(coefficients));
  graph.set_totals(std::move(totals));
  return number;
}

uint32_t count_others(Graph& graph, ValueId input, int64_t ignored) {
  return count_elements(graph, input, [&](Graph& body, ValueId elements) {
    const std::vector<int64_t> numbers = {ignored};
    const ValueId mark =
        ir::add_constant(body, "ignored", graph.type(input).dtype, {}, std::span<const int64_t>(numbers));
    return typed(body, body.add(ir::core("ne"), {elements, mark}));
  });
}

void add_metric(Graph& graph, ValueId sum) {
  ir::Totals totals = graph.totals();
  Graph body;
  const ir::ValueType number = {.dtype = DType::kF64, .shape = ir::Shape{}};
  body.add_input(body.add_value(ir::ValueKind::kInput, "sum", number));
  for (size_t i = 0; i < totals.counts.size(); ++i) {
    body.add_input(
        body.add_value(ir::ValueKind::kInput, fmt::format("count.{}", i), {DType::kI64, ir::Shape{}, {}, {}}));
  }
  const ValueId count = typed(body, body.add(ir::core("cast"), {body.inputs()[1]}, {{"dtype", DType::kF64}}));
  body.add_output(typed(body, body.add(ir::core("div"), {body.inputs()[0], count}, {}, "mean")));
  totals.metrics.emplace(std::move(body));
  totals.sums = {sum};
  graph.add_output(sum);
  graph.set_totals(std::move(totals));
}

std::string coefficient_text(const Graph& graph, const std::optional<uint32_t>& coefficient) {
  if (!coefficient) return "";
  const Graph& body = graph.totals().coefficients->graph();
  return text(body, body.outputs()[*coefficient], graph.totals().counts);
}

}  // namespace rannc::testing
