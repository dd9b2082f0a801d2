/// Translates ONNX operators that make constants.
#include "ir/graph/constant.h"

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

Tensor integers(std::span<const int64_t> values, ir::Shape shape) {
  Tensor tensor{{ir::DType::kI64, std::move(shape), {}, {}}, ir::encode_integers(ir::DType::kI64, values)};
  tensor.type.contents = ir::constant_contents(tensor.type, tensor.data);
  return tensor;
}

Tensor numbers(std::span<const double> values, ir::Shape shape) {
  return {{ir::DType::kF32, std::move(shape), {}, {}}, ir::encode_numbers(ir::DType::kF32, values)};
}

void constant(Node& node) {
  if (node.has_attribute("value")) {
    auto tensor = node.tensor("value");
    if (tensor) node.constant(*std::move(tensor));
    return;
  }
  if (node.has_attribute("value_int")) {
    const int64_t value[] = {node.integer("value_int", 0)};
    return node.constant(integers(value, {}));
  }
  if (node.has_attribute("value_ints")) {
    const auto values = node.integers("value_ints");
    return node.constant(integers(values, {static_cast<int64_t>(values.size())}));
  }
  if (node.has_attribute("value_float")) {
    const double value[] = {node.number("value_float", 0.0)};
    return node.constant(numbers(value, {}));
  }
  if (node.has_attribute("value_floats")) {
    const auto values = node.numbers("value_floats");
    return node.constant(numbers(values, {static_cast<int64_t>(values.size())}));
  }
  node.fail("Constant: sparse tensors and strings are not supported");
}

/// The default value is a float32 zero.
void constant_of_shape(Node& node) {
  const ValueId sizes = node.in(0);
  ir::Attribute value = 0.0;
  ir::DType dtype = ir::DType::kF32;
  if (node.has_attribute("value")) {
    const auto tensor = node.tensor("value");
    if (!tensor) return;
    dtype = tensor->type.dtype;
    const auto number = only_element(tensor->type, tensor->data);
    if (!number) return node.fail("ConstantOfShape needs a value of one element");
    value = *number;
    if (tensor->type.contents) value = tensor->type.contents->front();
  }
  const auto shape = node.contents(sizes);
  if (shape) return node.result("full", {}, {{"shape", *shape}, {"value", value}, {"dtype", dtype}});
  node.result("full", {sizes}, {{"value", value}, {"dtype", dtype}});
}

}  // namespace

std::span<const Translator> constant_translators() {
  static constexpr Translator kTable[] = {
      {"Constant", 7, 27, constant},
      {"ConstantOfShape", 9, 27, constant_of_shape},
  };
  return kTable;
}

}  // namespace rannc::frontend
