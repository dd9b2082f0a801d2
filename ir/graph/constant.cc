#include "ir/graph/constant.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace rannc::ir {

namespace {

double from_half(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// Rounds to nearest even at `fraction_bits` of a format whose smallest normal exponent is `least`.
double round_to(double value, int fraction_bits, int least) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 1, least) - fraction_bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}

uint16_t to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  const double magnitude = std::fabs(round_to(value, 10, -14));
  if (magnitude > 65504) return sign | 0x7c00;
  if (magnitude < std::ldexp(1, -14)) return sign | static_cast<uint16_t>(std::ldexp(magnitude, 24));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);
  const auto mantissa = static_cast<uint16_t>(std::ldexp(fraction, 11)) & 1023;
  return sign | static_cast<uint16_t>((exponent + 14) << 10) | mantissa;
}

uint16_t to_bfloat(double value) {
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(round_to(value, 7, -126))) >> 16);
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store(std::vector<std::byte>& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

int64_t load_integer(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kI8:
      return load<int8_t>(at);
    case DType::kI16:
      return load<int16_t>(at);
    case DType::kI32:
      return load<int32_t>(at);
    case DType::kU8:
      return load<uint8_t>(at);
    case DType::kU16:
      return load<uint16_t>(at);
    case DType::kU32:
      return load<uint32_t>(at);
    case DType::kBool:
      return load<uint8_t>(at) != 0;
    default:
      return load<int64_t>(at);
  }
}

double load_number(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF16:
      return from_half(load<uint16_t>(at));
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(at)) << 16);
    case DType::kF32:
      return load<float>(at);
    case DType::kF64:
      return load<double>(at);
    default:
      return static_cast<double>(load_integer(dtype, at));
  }
}

Result<std::vector<std::byte>> checked_bytes(const ValueType& type, const TensorData& data, int64_t limit) {
  const auto count = static_count(type);
  if (!count) return error("the constant's shape is not made of integers");
  if (*count > limit) return error("a constant of " + std::to_string(*count) + " elements is not read as numbers");
  if (!data.present()) return error("the bytes of the constant are not available");
  if (data.size() != static_cast<uint64_t>(*count) * byte_size(type.dtype)) {
    return error("a constant of type " + std::string(str(type.dtype)) + str(*type.shape) + " has " +
                 std::to_string(data.size()) + " bytes");
  }
  return data.read();
}

ValueId add(Graph& graph, std::string_view name, DType dtype, const std::vector<int64_t>& shape, TensorData data) {
  ValueType type;
  type.dtype = dtype;
  type.shape = Shape(shape.begin(), shape.end());
  RANNC_CHECK(static_count(type) && data.size() == static_cast<uint64_t>(*static_count(type)) * byte_size(dtype))
      << "constant " << name << " has " << data.size() << " bytes for " << str(*type.shape);
  type.contents = constant_contents(type, data);
  return graph.add_value(ValueKind::kConstant, name, std::move(type), std::move(data));
}

}  // namespace

std::optional<int64_t> static_count(const ValueType& type) {
  if (!type.shape) return std::nullopt;
  int64_t count = 1;
  for (const Dim& dim : *type.shape) {
    if (!dim.is_constant() || dim.constant() < 0 || __builtin_mul_overflow(count, dim.constant(), &count)) {
      return std::nullopt;
    }
  }
  return count;
}

Result<std::vector<int64_t>> decode_integers(const ValueType& type, const TensorData& data, int64_t limit) {
  if (is_float(type.dtype)) return error("a constant of type " + std::string(str(type.dtype)) + " has no integers");
  RANNC_ASSIGN(const std::vector<std::byte> bytes, checked_bytes(type, data, limit));
  std::vector<int64_t> values;
  const size_t step = byte_size(type.dtype);
  for (size_t at = 0; at < bytes.size(); at += step) values.push_back(load_integer(type.dtype, &bytes[at]));
  return values;
}

Result<std::vector<double>> decode_numbers(const ValueType& type, const TensorData& data, int64_t limit) {
  RANNC_ASSIGN(const std::vector<std::byte> bytes, checked_bytes(type, data, limit));
  std::vector<double> values;
  const size_t step = byte_size(type.dtype);
  for (size_t at = 0; at < bytes.size(); at += step) values.push_back(load_number(type.dtype, &bytes[at]));
  return values;
}

TensorData encode_integers(DType dtype, std::span<const int64_t> values) {
  RANNC_CHECK(!is_float(dtype)) << "integers as " << str(dtype);
  std::vector<std::byte> bytes;
  bytes.reserve(values.size() * byte_size(dtype));
  for (const int64_t value : values) {
    switch (byte_size(dtype)) {
      case 1:
        store(bytes, dtype == DType::kBool ? uint8_t{value != 0} : static_cast<uint8_t>(value));
        break;
      case 2:
        store(bytes, static_cast<uint16_t>(value));
        break;
      case 4:
        store(bytes, static_cast<uint32_t>(value));
        break;
      default:
        store(bytes, value);
    }
  }
  return TensorData::in_memory(std::move(bytes));
}

TensorData encode_numbers(DType dtype, std::span<const double> values) {
  RANNC_CHECK(is_float(dtype)) << "floats as " << str(dtype);
  std::vector<std::byte> bytes;
  bytes.reserve(values.size() * byte_size(dtype));
  for (const double value : values) {
    switch (dtype) {
      case DType::kF16:
        store(bytes, to_half(value));
        break;
      case DType::kBF16:
        store(bytes, to_bfloat(value));
        break;
      case DType::kF32:
        store(bytes, static_cast<float>(value));
        break;
      default:
        store(bytes, value);
    }
  }
  return TensorData::in_memory(std::move(bytes));
}

std::optional<Contents> constant_contents(const ValueType& type, const TensorData& data) {
  constexpr int64_t kLimit = 64;
  if (is_float(type.dtype) || !type.shape || type.shape->size() > 1 || !data.present()) return std::nullopt;
  const auto count = static_count(type);
  if (!count || *count > kLimit) return std::nullopt;
  const auto values = decode_integers(type, data, kLimit);
  if (!values) return std::nullopt;
  return Contents(values->begin(), values->end());
}

ValueId add_constant(Graph& graph, std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                     std::span<const int64_t> values) {
  return add(graph, name, dtype, shape, encode_integers(dtype, values));
}

ValueId add_constant(Graph& graph, std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                     std::span<const double> values) {
  return add(graph, name, dtype, shape, encode_numbers(dtype, values));
}

}  // namespace rannc::ir
