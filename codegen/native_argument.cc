// Converts constants by the types of parameters.
#include "codegen/internal/native_argument.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/internal/native_text.h"

namespace rannc::codegen {

std::string native_integers(const std::vector<std::string>& items, const NativeParameter& parameter) {
  const bool symbolic = parameter.element() == c10::TypeKind::SymIntType;
  return fmt::format("{}({{{}}})", symbolic ? "sizes" : "ints", fmt::join(items, ", "));
}

Result<std::string> native_constant(const c10::IValue& value, const NativeParameter& parameter) {
  switch (parameter.kind()) {
    case c10::TypeKind::ScalarTypeType:
      return fmt::format("at::ScalarType::{}", c10::toString(static_cast<c10::ScalarType>(value.toInt())));
    case c10::TypeKind::LayoutType:
      return fmt::format("static_cast<at::Layout>({})", value.toInt());
    case c10::TypeKind::MemoryFormatType:
      return fmt::format("static_cast<at::MemoryFormat>({})", value.toInt());
    default:
      break;
  }
  if (value.isTensor() && !value.toTensor().defined()) return std::string("at::Tensor()");
  if (value.isBool()) return std::string(value.toBool() ? "true" : "false");
  if (value.isInt()) return integer(value.toInt());
  if (value.isDouble()) return number(value.toDouble());
  if (value.isString()) return literal(value.toStringRef());
  if (value.isDevice()) return fmt::format("at::Device(\"{}\")", value.toDevice().str());
  if (value.isIntList()) {
    std::vector<std::string> items;
    for (const int64_t each : value.toIntVector()) items.push_back(integer(each));
    return native_integers(items, parameter);
  }
  if (value.isDoubleList()) {
    std::vector<std::string> items;
    for (const double each : value.toDoubleVector()) items.push_back(number(each));
    return fmt::format("doubles({{{}}})", fmt::join(items, ", "));
  }
  if (value.isBoolList()) {
    const c10::List<bool> list = value.toBoolList();
    std::vector<std::string> items;
    for (const bool each : list) items.emplace_back(each ? "true" : "false");
    return fmt::format("std::array<bool, {}>{{{}}}", list.size(), fmt::join(items, ", "));
  }
  return error("an argument of type `" + parameter.type->str() + "` has no C++ form");
}

}  // namespace rannc::codegen
