#include "passes/set_precision.h"

#include <limits>

#include "ir/constant.h"

namespace rannc::passes {

namespace {

Result<ir::TensorData> converted(const ir::ValueType& type, const ir::TensorData& data, ir::DType target) {
  if (!data.present()) return data;
  RANNC_ASSIGN(const std::vector<double> numbers, ir::decode_numbers(type, data, std::numeric_limits<int64_t>::max()));
  return ir::encode_numbers(target, numbers);
}

}  // namespace

Result<Outcome> SetPrecision::run(ir::Graph& graph, PassContext&) const {
  Outcome outcome;
  for (const ValueId id : graph.values()) {
    const ir::Graph::Value& value = graph.value(id);
    if (!ir::is_float(value.type.dtype) || value.type.dtype == target_) continue;
    auto data = converted(value.type, value.data, target_);
    if (!data) {
      Location where{{}, 0, 0, std::string(value.name)};
      return error(std::move(where), data.diagnostic().message);
    }
    ir::ValueType type = value.type;
    type.dtype = target_;
    graph.set_data(id, *std::move(data));
    graph.set_type(id, std::move(type));
    outcome.changed = true;
  }
  for (const TaskId task : graph.tasks()) {
    const auto dtype = graph.attributes(task).dtype("dtype");
    if (!dtype || !ir::is_float(*dtype) || *dtype == target_) continue;
    ir::Attributes attributes = graph.attributes(task);
    attributes.set("dtype", target_);
    graph.set_attributes(task, std::move(attributes));
    outcome.changed = true;
  }
  return outcome;
}

}  // namespace rannc::passes
