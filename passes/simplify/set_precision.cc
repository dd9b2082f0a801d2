#include "passes/simplify/set_precision.h"

#include <limits>

#include "ir/graph/constant.h"

namespace rannc::passes {

namespace {

Result<ir::TensorData> converted(const ir::ValueType& type, const ir::TensorData& data, ir::DType target) {
  if (!data.present()) return data;
  RANNC_ASSIGN(const std::vector<double> numbers, ir::decode_numbers(type, data, std::numeric_limits<int64_t>::max()));
  return ir::encode_numbers(target, numbers);
}

/// Converts element types and bodies in attributes to that precision. Returns whether any changed.
Result<bool> convert(ir::Attributes& attributes, ir::DType target);

Result<bool> convert(ir::Graph& graph, ir::DType target) {
  bool changed = false;
  for (const ValueId id : graph.values()) {
    const ir::Graph::Value& value = graph.value(id);
    if (!ir::is_float(value.type.dtype) || value.type.dtype == target) continue;
    auto data = converted(value.type, value.data, target);
    if (!data) {
      Location where = data.diagnostic().where;
      where.node = value.name;
      return error(std::move(where), data.diagnostic().message);
    }
    ir::ValueType type = value.type;
    type.dtype = target;
    graph.set_data(id, *std::move(data));
    graph.set_type(id, std::move(type));
    changed = true;
  }
  for (const TaskId task : graph.tasks()) {
    ir::Attributes attributes = graph.attributes(task);
    RANNC_ASSIGN(const bool differ, convert(attributes, target));
    if (differ) graph.set_attributes(task, std::move(attributes));
    changed = changed || differ;
  }
  if (target != ir::DType::kF64) return changed;
  ir::Totals totals = graph.totals();
  for (ir::Body& count : totals.counts) {
    ir::Graph inside = count.graph().clone();
    RANNC_ASSIGN(const bool differ, convert(inside, target));
    if (differ) count = ir::Body(std::move(inside));
    changed = changed || differ;
  }
  graph.set_totals(std::move(totals));
  return changed;
}

Result<bool> convert(ir::Attributes& attributes, ir::DType target) {
  bool changed = false;
  const ir::Attribute* const found = attributes.find("dtype");
  const auto* const dtype = found != nullptr ? std::get_if<ir::DType>(found) : nullptr;  // an integer in a foreign call
  if (dtype && ir::is_float(*dtype) && *dtype != target) {
    attributes.set("dtype", target);
    changed = true;
  }
  for (const auto& [name, value] : ir::Attributes(attributes)) {
    const auto* const body = std::get_if<ir::Body>(&value);
    if (body == nullptr) continue;
    ir::Graph inside = body->graph().clone();
    RANNC_ASSIGN(const bool differ, convert(inside, target));
    if (differ) attributes.set(name, ir::Body(std::move(inside)));
    changed = changed || differ;
  }
  return changed;
}

}  // namespace

Result<Outcome> SetPrecision::run(ir::Graph& graph, PassContext&) const {
  RANNC_ASSIGN(const bool changed, convert(graph, target_));
  return Outcome{changed};
}

}  // namespace rannc::passes
