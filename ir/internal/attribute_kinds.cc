#include "ir/internal/attribute_kinds.h"

#include <algorithm>

#include "ir/op/foreign.h"

namespace rannc::ir {

namespace {

using Kind = AttributeKind;

bool plain(const Attribute& value) {
  const auto* dim = std::get_if<Dim>(&value);
  return dim != nullptr && dim->is_constant();
}

bool plain_list(const Attribute& value) {
  const auto* list = std::get_if<Shape>(&value);
  return list != nullptr && std::all_of(list->begin(), list->end(), [](const Dim& dim) { return dim.is_constant(); });
}

bool fits(Kind kind, const Attribute& value) {
  switch (kind) {
    case Kind::kInteger:
      return plain(value);
    case Kind::kFlag:
      return std::holds_alternative<bool>(value);
    case Kind::kNumber:
      return std::holds_alternative<double>(value);
    case Kind::kScalar:
      return std::holds_alternative<double>(value) || std::holds_alternative<Dim>(value) ||
             std::holds_alternative<bool>(value);
    case Kind::kText:
      return std::holds_alternative<std::string>(value);
    case Kind::kDType:
      return std::holds_alternative<DType>(value);
    case Kind::kIntegers:
      return plain_list(value);
    case Kind::kSizes:
      return std::holds_alternative<Shape>(value);
    case Kind::kBody:
      return std::holds_alternative<Body>(value);
  }
  return false;
}

std::string_view describe(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
      return "an integer";
    case Kind::kFlag:
      return "true or false";
    case Kind::kNumber:
      return "a number (0x1p+0)";
    case Kind::kScalar:
      return "a number, an integer or a truth value";
    case Kind::kText:
      return "a text";
    case Kind::kDType:
      return "an element type (!f32)";
    case Kind::kIntegers:
      return "a list of integers";
    case Kind::kSizes:
      return "a list of integer expressions";
    case Kind::kBody:
      return "a body (@b0)";
  }
  return "";
}

}  // namespace

std::string attribute_fault(const OpInfo& op, std::string_view name, const Attribute& value) {
  const AttributeInfo* declared = op.attribute(name);
  if (declared == nullptr && is_foreign(op)) {
    const std::string fault = foreign_attribute_fault(name, value);
    return fault.empty() ? fault : op.name + ": " + fault;
  }
  if (declared == nullptr) {
    std::string text = op.name + " has no attribute " + std::string(name) + "; it has";
    for (const AttributeInfo& known : op.attributes) text.append(" ").append(known.name);
    return op.attributes.empty() ? text + " none" : text;
  }
  const std::string what = "attribute " + std::string(name) + " of " + op.name + " must be ";
  if (!fits(declared->kind, value)) return what + std::string(describe(declared->kind));
  const auto& allowed = declared->allowed;
  if (allowed.empty() || std::find(allowed.begin(), allowed.end(), std::get<std::string>(value)) != allowed.end())
    return {};
  std::string list;
  for (const std::string_view each : allowed) list += (list.empty() ? "" : " or ") + ('"' + std::string(each) + '"');
  return what + list;
}

}  // namespace rannc::ir
