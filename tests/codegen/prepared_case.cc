#include "tests/codegen/prepared_case.h"

#include "runtime/aten/aten_call.h"

namespace rannc::ir::testing {

c10::ScalarType scalar_type(DType dtype) { return static_cast<c10::ScalarType>(torch_number(dtype)); }

std::vector<int64_t> sizes_of(const Shape& shape, int64_t batch) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : shape) sizes.push_back(dim.evaluate({{"batch", batch}}).value());
  return sizes;
}

at::Tensor draw(const Operand& operand, int64_t batch) {
  const auto options = at::TensorOptions().dtype(scalar_type(operand.type.dtype));
  const auto sizes = sizes_of(*operand.type.shape, batch);
  if (operand.type.contents) return at::tensor(sizes_of(*operand.type.contents, batch)).to(options).reshape(sizes);
  if (is_float(operand.type.dtype) && !operand.whole)
    return at::rand(sizes, at::kDouble).mul(1.9).add(0.05).to(options);
  return at::randint(operand.low, operand.high, sizes, at::kLong).to(options);
}

Prepared prepare(const OpCase& c, DType precision) {
  Prepared made;
  made.op = &core(c.op);
  made.operands = c.operands;
  made.attributes = c.attributes;
  for (Operand& operand : made.operands) {
    if (operand.type.dtype == DType::kF64) operand.type.dtype = precision;
  }
  const auto dtype = made.attributes.dtype("dtype");
  if (dtype && is_float(*dtype)) made.attributes.set("dtype", precision);
  OpCase narrowed = c;
  narrowed.operands = made.operands;
  if (made.op->fit != nullptr) made.attributes = fitted(std::move(narrowed)).attributes;
  std::vector<const ValueType*> inputs;
  for (const Operand& operand : made.operands) inputs.push_back(operand.absent ? nullptr : &operand.type);
  made.types = types_of({*made.op, inputs, made.attributes, "batch", c.outputs}).value();
  std::vector<const ValueType*> output_types;
  for (const ValueType& type : made.types) output_types.push_back(&type);
  made.lowering = lowering({*made.op, inputs, output_types, made.attributes}).value();
  return made;
}

std::vector<at::Tensor> execute(const Prepared& made, const std::vector<at::Tensor>& inputs, int64_t batch) {
  const auto operands = in_places(made, inputs);
  const Bindings sizes = {{"batch", batch}};
  const at::Device device = inputs.empty() ? at::Device(at::kCPU) : inputs.front().device();
  auto results = runtime::run_lowering(made.lowering, {.operands = operands, .sizes = sizes, .device = device}).value();
  for (at::Tensor& result : results) {
    if (result.is_sparse()) result = result.to_dense();
  }
  return results;
}

std::vector<at::Tensor> drawn(const Prepared& made, int64_t batch) {
  std::vector<at::Tensor> inputs;
  for (const Operand& operand : made.operands) {
    if (!operand.absent) inputs.push_back(draw(operand, batch));
  }
  return inputs;
}

std::vector<std::optional<at::Tensor>> in_places(const Prepared& made, const std::vector<at::Tensor>& tensors) {
  std::vector<std::optional<at::Tensor>> operands;
  size_t next = 0;
  for (const Operand& operand : made.operands) {
    operands.push_back(operand.absent ? std::nullopt : std::optional(tensors[next++]));
  }
  return operands;
}

}  // namespace rannc::ir::testing
