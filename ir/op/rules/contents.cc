// Contents of integer and boolean values that follow from sizes and constants alone.
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

std::optional<int64_t> wrapped(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kI8:
      return static_cast<int8_t>(value);
    case DType::kI16:
      return static_cast<int16_t>(value);
    case DType::kI32:
      return static_cast<int32_t>(value);
    case DType::kU8:
      return static_cast<uint8_t>(value);
    case DType::kU16:
      return static_cast<uint16_t>(value);
    case DType::kU32:
      return static_cast<uint32_t>(value);
    case DType::kBool:
      return value != 0;
    default:
      if (dtype == DType::kU64 && value < 0) return std::nullopt;
      return value;
  }
}

std::optional<int64_t> integer_element(const Attribute& attribute, DType dtype) {
  const aten::Scalar scalar = number_attribute(attribute, dtype);
  if (const auto* flag = std::get_if<bool>(&scalar.number)) return *flag;
  const auto* number = std::get_if<Dim>(&scalar.number);
  if (number == nullptr || !number->is_constant()) return std::nullopt;
  const auto held = wrapped(dtype, number->constant());
  return held == number->constant() ? held : std::nullopt;
}

namespace {

// Sizes are assumed to be below 2^31, because a longer axis would not fit a device. Narrower types may not hold them.
std::optional<Dim> wrapped_element(DType dtype, const Dim& element) {
  if (element.is_constant()) {
    const auto value = wrapped(dtype, element.constant());
    return value ? std::optional<Dim>(*value) : std::nullopt;
  }
  if (byte_size(dtype) >= 4) return element;
  const Bounds bounds = bounds_of(element);
  const bool fits = bounds.low && bounds.high && wrapped(dtype, *bounds.low) == bounds.low &&
                    wrapped(dtype, *bounds.high) == bounds.high;
  return fits ? std::optional(element) : std::nullopt;
}

int64_t as_signed(uint64_t value) { return static_cast<int64_t>(value); }

}  // namespace

Dim plus(const Dim& a, const Dim& b) {
  if (!a.is_constant() || !b.is_constant()) return a + b;
  return as_signed(static_cast<uint64_t>(a.constant()) + static_cast<uint64_t>(b.constant()));
}
Dim minus(const Dim& a, const Dim& b) {
  if (!a.is_constant() || !b.is_constant()) return a - b;
  return as_signed(static_cast<uint64_t>(a.constant()) - static_cast<uint64_t>(b.constant()));
}
Dim times(const Dim& a, const Dim& b) {
  if (!a.is_constant() || !b.is_constant()) return a * b;
  return as_signed(static_cast<uint64_t>(a.constant()) * static_cast<uint64_t>(b.constant()));
}

void set_contents(ValueType& type, std::optional<Contents> contents) {
  if (!contents || is_float(type.dtype) || !type.shape || type.shape->size() > 1) return;
  const Dim count = element_count(*type.shape);
  if (!(count == Dim(static_cast<int64_t>(contents->size()))) || contents->size() > static_cast<size_t>(kMaxContents)) {
    return;
  }
  for (Dim& element : *contents) {
    const auto held = wrapped_element(type.dtype, element);
    if (!held) return;
    element = *held;
  }
  type.contents = std::move(contents);
}

std::optional<Contents> map_contents(const ValueType& a, const ValueType& b,
                                     std::optional<Dim> (*f)(const Dim&, const Dim&)) {
  if (!a.contents || !b.contents) return std::nullopt;
  const size_t n = a.contents->size(), m = b.contents->size();
  if (n != m && n != 1 && m != 1) return std::nullopt;
  Contents out;
  for (size_t i = 0; i < (n == 1 ? m : n); ++i) {
    const auto value = f((*a.contents)[n == 1 ? 0 : i], (*b.contents)[m == 1 ? 0 : i]);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<Contents> map_contents(const ValueType& a, std::optional<Dim> (*f)(const Dim&)) {
  if (!a.contents) return std::nullopt;
  Contents out;
  for (const Dim& x : *a.contents) {
    const auto value = f(x);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<std::vector<int64_t>> constants(const Contents& contents) {
  std::vector<int64_t> out;
  for (const Dim& dim : contents) {
    if (!dim.is_constant()) return std::nullopt;
    out.push_back(dim.constant());
  }
  return out;
}

}  // namespace rannc::ir::ops
