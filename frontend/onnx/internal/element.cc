#include <cstring>

#include "frontend/onnx/internal/tensor.h"

namespace rannc::frontend {

namespace {

template <class T>
double as_number(const std::vector<std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return static_cast<double>(value);
}

/// IEEE half precision: sign, 5 bits of exponent, 10 of fraction.
double half_number(const std::vector<std::byte>& bytes) {
  uint16_t half;
  std::memcpy(&half, bytes.data(), sizeof(half));
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0) return (sign != 0 ? -1.0 : 1.0) * static_cast<double>(fraction) / (1 << 24);
  const uint32_t bits = sign | (exponent == 0x1f ? 0xffu : exponent + 112) << 23 | fraction << 13;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

double brain_number(const std::vector<std::byte>& bytes) {
  uint16_t brain;
  std::memcpy(&brain, bytes.data(), sizeof(brain));
  const uint32_t bits = static_cast<uint32_t>(brain) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

double element(const std::vector<std::byte>& bytes, ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF16: return half_number(bytes);
    case ir::DType::kBF16: return brain_number(bytes);
    case ir::DType::kF32: return as_number<float>(bytes);
    case ir::DType::kF64: return as_number<double>(bytes);
    case ir::DType::kI8: return as_number<int8_t>(bytes);
    case ir::DType::kI16: return as_number<int16_t>(bytes);
    case ir::DType::kI32: return as_number<int32_t>(bytes);
    case ir::DType::kI64: return as_number<int64_t>(bytes);
    case ir::DType::kU8: return as_number<uint8_t>(bytes);
    case ir::DType::kU16: return as_number<uint16_t>(bytes);
    case ir::DType::kU32: return as_number<uint32_t>(bytes);
    case ir::DType::kU64: return as_number<uint64_t>(bytes);
    case ir::DType::kBool: return as_number<uint8_t>(bytes);
  }
  return 0;
}

}  // namespace

std::optional<double> only_element(const ir::ValueType& type, const ir::TensorData& data) {
  if (!type.shape || !(ir::element_count(*type.shape) == ir::Dim(1)) || !data.present()) return std::nullopt;
  const auto bytes = data.read();
  if (!bytes.ok() || bytes->size() != ir::byte_size(type.dtype)) return std::nullopt;
  return element(*bytes, type.dtype);
}

}  // namespace rannc::frontend
