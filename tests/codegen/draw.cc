#include "tests/codegen/draw.h"

#include <algorithm>
#include <cstdint>

namespace rannc::test {
namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

constexpr DType kIntegers[] = {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8};

}  // namespace

int64_t lowest(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return INT8_MIN;
    case DType::kI16:
      return INT16_MIN;
    case DType::kI32:
      return INT32_MIN;
    case DType::kI64:
      return INT64_MIN;
    default:
      return 0;
  }
}

int64_t highest(DType dtype) {
  if (dtype == DType::kBool) return 1;
  return dtype == DType::kU8 ? UINT8_MAX : -(lowest(dtype) + 1);
}

std::string DrawnCall::str() const {
  std::string text = op;
  for (const DrawnOperand& operand : operands) {
    text +=
        " " + std::string(ir::str(operand.dtype)) + ir::str(Shape(operand.shape.begin(), operand.shape.end())) + "{";
    for (const int64_t x : operand.data) text += " " + std::to_string(x);
    text += " }";
  }
  for (const auto& [name, value] : attributes) {
    text += " " + name;
    if (const auto* list = std::get_if<Shape>(&value)) text += "=" + ir::str(*list);
    if (const auto* dim = std::get_if<Dim>(&value)) text += "=" + dim->str();
    if (const auto* dtype = std::get_if<DType>(&value)) text += "=" + std::string(ir::str(*dtype));
    if (const auto* word = std::get_if<std::string>(&value)) text += "=" + *word;
    if (const auto* flag = std::get_if<bool>(&value)) text += *flag ? "=1" : "=0";
  }
  return text;
}

DType RandomInput::integer_type() { return kIntegers[below(std::size(kIntegers))]; }

Numbers RandomInput::shape(size_t least) {
  Numbers sizes(least + static_cast<size_t>(below(static_cast<int64_t>(std::max(most_rank_, least) - least) + 1)));
  for (int64_t& size : sizes) size = below(8) == 0 ? 0 : 1 + below(4);
  return sizes;
}

int64_t RandomInput::number(DType dtype) {
  const int64_t low = lowest(dtype), high = highest(dtype);
  switch (below(6)) {
    case 0:
      return coin() ? low : high;
    case 1:
      return coin() ? low + (low < 0 ? 1 : 0) : high - 1;
    case 2:
      return low < 0 ? static_cast<int64_t>(random_()) >> (64 - 8 * ir::byte_size(dtype)) : below(high + 1);
    default:
      return std::clamp<int64_t>(below(13) - 6, low, high);
  }
}

DrawnOperand RandomInput::of(DType dtype, Numbers shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  DrawnOperand operand{dtype, std::move(shape), Numbers(static_cast<size_t>(count))};
  for (int64_t& x : operand.data) x = number(dtype);
  return operand;
}

Numbers RandomInput::broadcastable(Numbers shape) {
  shape.erase(shape.begin(), shape.begin() + below(static_cast<int64_t>(shape.size()) + 1));
  for (int64_t& size : shape) size = below(4) == 0 ? 1 : size;
  return shape;
}

Dim RandomInput::axis(size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  return below(2 * n) - n;
}

Shape list(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace rannc::test
