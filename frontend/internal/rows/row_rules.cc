#include "frontend/internal/rows/row_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/internal/rows/picked_rows.h"
#include "ir/op/foreign.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using ir::Dim;
using ir::Graph;
using ir::Shape;

namespace {

constexpr Guard kGuards[] = {{"div", 1, 1},    {"mod", 1, 1},       {"fmod", 1, 1},           {"pow", 0, 1},
                             {"log", 0, 1},    {"sqrt", 0, 1},      {"rsqrt", 0, 1},          {"reciprocal", 0, 1},
                             {"asin", 0, 0},   {"acos", 0, 0},      {"acosh", 0, 2},          {"atanh", 0, 0},
                             {"gather", 1, 0}, {"gather_nd", 1, 0}, {"gather_elements", 1, 0}};

}  // namespace

std::vector<Guard> guards(const Graph& graph, TaskId task) {
  std::vector<Guard> found;
  for (const Guard& guard : kGuards) {
    if (graph.op(task).name.substr(5) == guard.op) found.push_back(guard);
  }
  return found;
}

ir::BatchLayout random_rows(const Graph& graph, ValueId value, const Pick& pick) {
  const Shape& shape = *graph.type(value).shape;
  ir::BatchLayout layout;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto rest =
        is_picked(shape[i]) ? ir::exact_div(pick.counted(shape[i], pick.symbol()), pick.symbol()) : std::nullopt;
    if (rest) layout = {static_cast<int32_t>(i), 1, *rest};
  }
  return layout;
}

Result<std::vector<ir::ValueType>> types_by_row(const Graph& graph, const Picks& picks,
                                                const std::map<ValueId, Rows>& rows, TaskId task, size_t number) {
  const ir::OpInfo& op = graph.op(task);
  const Location& where = graph.location(task);
  const Pick& pick = picks[number];
  if (ir::is_foreign(op) || !op.known())
    return picks.fault(where, fmt::format("({}) is not known to compute rows one by one", op.name), number);
  if (op.fit != nullptr || &op == &ir::core("range") || graph.attributes(task).flag("training"))
    return picks.fault(where, fmt::format("({}) does not compute rows one by one", op.name), number);
  std::vector<ir::ValueType> types;
  for (const ValueId operand : graph.inputs(task)) {
    types.push_back(operand.valid() ? graph.type(operand) : ir::ValueType());
    types.back().batch = {};
    if (!operand.valid() || !picks.has_rows(operand)) continue;
    const auto found = rows.find(operand);
    types.back().batch = found != rows.end() ? found->second.at : random_rows(graph, operand, pick);
    for (Dim& size : *types.back().shape) size = pick.counted(size, pick.symbol());
  }
  ir::Attributes attributes = graph.attributes(task);
  for (const auto& [name, attribute] : graph.attributes(task)) {
    const auto* const sizes = std::get_if<Shape>(&attribute);
    if (!sizes) continue;
    Shape counted;
    for (const Dim& size : *sizes) counted.push_back(pick.counted(size, pick.symbol()));
    attributes.set(name, counted);
  }
  std::vector<const ir::ValueType*> operands;
  for (size_t i = 0; i < types.size(); ++i) operands.push_back(graph.inputs(task)[i].valid() ? &types[i] : nullptr);
  auto made =
      ir::types_of({op, operands, attributes, pick.symbols[0], static_cast<uint32_t>(graph.outputs(task).size())});
  if (!made.ok())
    return picks.fault(where, fmt::format("({}) does not compute rows one by one", op.name), number,
                       made.diagnostic().message);
  for (const ir::ValueType& type : *made) {
    if (type.batch.has_batch() && type.batch.mix == ir::Mix::kNone) continue;
    const bool counts =
        std::any_of(type.shape->begin(), type.shape->end(), [](const Dim& size) { return is_picked(size); });
    const bool reads =
        std::any_of(types.begin(), types.end(), [](const ir::ValueType& type) { return type.batch.has_batch(); });
    if (counts || type.batch.mix != ir::Mix::kNone || reads)
      return picks.fault(where, fmt::format("({}) computes over rows that a mask picks", op.name), number);
  }
  return made;
}

Result<void> check_counted(const Graph& graph, const Picks& picks, TaskId task, std::optional<size_t> number) {
  for (const auto& [name, attribute] : graph.attributes(task)) {
    if (!is_picked(attribute)) continue;
    const ir::AttributeInfo* const info = graph.op(task).attribute(name);
    if (number && info && info->kind == ir::AttributeKind::kSizes) continue;
    const auto* const size = std::get_if<Dim>(&attribute);
    const Dim& counted = size ? *size
                              : *std::find_if(std::get<Shape>(attribute).begin(), std::get<Shape>(attribute).end(),
                                              [](const Dim& each) { return is_picked(each); });
    return picks.fault(graph.location(task), "computes with the number of rows that a mask picks", picks.of(counted));
  }
  return {};
}

}  // namespace rannc::frontend
