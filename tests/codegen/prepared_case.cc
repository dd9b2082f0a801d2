#include "tests/codegen/prepared_case.h"

#include <torch/jit.h>

#include <algorithm>

#include "codegen/aten_source.h"

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
  std::vector<std::string> names, outputs;
  made.source = "def f(";
  for (size_t k = 0; k < made.operands.size(); ++k) {
    inputs.push_back(made.operands[k].absent ? nullptr : &made.operands[k].type);
    names.push_back(made.operands[k].absent ? "" : "i" + std::to_string(k));
    if (!made.operands[k].absent) made.source += names.back() + ": Tensor, ";
  }
  made.types = types_of({*made.op, inputs, made.attributes, "batch", c.outputs}).value();
  std::vector<const ValueType*> output_types;
  for (size_t k = 0; k < made.types.size(); ++k) {
    outputs.push_back("o" + std::to_string(k));
    output_types.push_back(&made.types[k]);
  }
  made.lowering = lowering({*made.op, inputs, output_types, made.attributes}).value();
  const auto there = std::find_if(names.begin(), names.end(), [](const std::string& name) { return !name.empty(); });
  const std::string device = there == names.end() ? "torch.device(\"cpu\")" : *there + ".device";
  const std::string lines = codegen::torchscript_statements(made.lowering, {names, outputs, device, "True"});
  made.source += "batch: int):\n";
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    made.source += "    " + lines.substr(at, end - at) + "\n";
    at = end + 1;
  }
  made.source += "    return [";
  for (const std::string& output : outputs) made.source += output + ", ";
  made.source += "]\n";
  return made;
}

std::vector<at::Tensor> execute(const Prepared& made, const std::vector<at::Tensor>& inputs, int64_t batch) {
  const auto unit = torch::jit::compile(made.source);
  std::vector<c10::IValue> stack(inputs.begin(), inputs.end());
  stack.emplace_back(batch);
  std::vector<at::Tensor> results = unit->get_function("f")(stack).toTensorVector();
  for (at::Tensor& result : results) {
    if (result.is_sparse()) result = result.to_dense();  // gradients as rows
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
