#include "ir/op/entries/elementwise_rows.h"

namespace rannc::ir::ops {

ValueType like(const OpCall& call, DType dtype) {
  ValueType type = call.in(0);
  type.dtype = dtype;
  type.contents.reset();
  return type;
}

Result<ValueType> broadcast_type(const OpCall& call, DType dtype) {
  RANNC_ASSIGN(Shape shape, shape_of(call, 0));
  std::vector<size_t> operands = {0};
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.has(i)) continue;
    RANNC_ASSIGN(const Shape other, shape_of(call, i));
    RANNC_ASSIGN(shape, broadcast(call, shape, other));
    operands.push_back(i);
  }
  RANNC_ASSIGN(BatchLayout layout, broadcast_layout(call, shape.size(), operands));
  return make_type(dtype, std::move(shape), std::move(layout));
}

Result<Types> infer_float(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  if (!is_float(call.in(0).dtype)) {
    return error("operand 0 is " + std::string(str(call.in(0).dtype)) + "; it must be a float type");
  }
  return Types{like(call, call.in(0).dtype)};
}

Result<Types> infer_float_test(const OpCall& call) {
  RANNC_TRY(infer_float(call));
  return Types{like(call, DType::kBool)};
}

OpInfo elementwise(std::string_view name, std::string_view summary, Names onnx, std::vector<OperandInfo> operands,
                   InferRule infer, Traits traits) {
  const auto count = static_cast<uint32_t>(operands.size());
  OpInfo op{.name = "core." + std::string(name),
            .summary = summary,
            .onnx = std::move(onnx),
            .aten = std::move(traits.aten),
            .operands = std::move(operands),
            .attributes = std::move(traits.attributes),
            .view = traits.view,
            .broadcasts = count > 1,
            .autocast = traits.autocast,
            .infer = infer,
            .linear = traits.linear,
            .work = traits.costly ? elementwise_work<10> : elementwise_work<1>,
            .lower = traits.lower,
            .fold = traits.fold,
            .interval = traits.interval,
            .gradient = traits.gradient,
            .tape = std::move(traits.tape)};
  if (traits.schema.empty()) traits.schema = "aten::" + std::string(name);
  if (op.lower == nullptr) op.form = form(std::move(traits.schema), count, std::move(traits.slots));
  return op;
}

OpInfo unary(std::string_view name, std::string_view summary, Names onnx, InferRule infer, Traits traits) {
  return elementwise(name, summary, std::move(onnx), {{"x"}}, infer, std::move(traits));
}
OpInfo binary(std::string_view name, std::string_view summary, Names onnx, InferRule infer, Traits traits) {
  return elementwise(name, summary, std::move(onnx), {{"a"}, {"b"}}, infer, std::move(traits));
}

}  // namespace rannc::ir::ops
