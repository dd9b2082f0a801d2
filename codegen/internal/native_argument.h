/// Arguments of LibTorch's typed operators, in C++.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::codegen {

/// The parameter of an operator that an argument is converted to.
struct NativeParameter {
  c10::TypePtr type;
  bool optional = false;
  int32_t length = 0;  ///< of a list of fixed length, else 0

  explicit NativeParameter(const c10::Argument& argument)
      : type(argument.real_type()), length(argument.N().value_or(0)) {
    if (const auto inner = type->cast<c10::OptionalType>()) {
      type = inner->getElementType();
      optional = true;
    }
  }
  c10::TypeKind kind() const { return type->kind(); }
  c10::TypeKind element() const { return type->expectRef<c10::ListType>().getElementType()->kind(); }
};

/// A list of integers.
std::string native_integers(const std::vector<std::string>& items, const NativeParameter& parameter);

/// A constant. An error if its type has no C++ form.
Result<std::string> native_constant(const c10::IValue& value, const NativeParameter& parameter);

}  // namespace rannc::codegen
