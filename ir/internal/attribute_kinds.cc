#include "ir/internal/attribute_kinds.h"

#include <algorithm>
#include <array>

namespace rannc::ir {

namespace {

enum class Kind : uint8_t { kInteger, kFlag, kNumber, kScalar, kText, kDType, kIntegers, kSizes };

struct Row {
  std::string_view name;
  Kind kind;
};

// Sorted by name. `start` and `end` of core.shape are integers, `pads` of windows plain integers: see kind_of.
constexpr std::array<Row, 42> kRows{{
    {"alpha", Kind::kNumber},
    {"approximate", Kind::kText},
    {"axes", Kind::kIntegers},
    {"axis", Kind::kInteger},
    {"batch_dims", Kind::kInteger},
    {"ceil", Kind::kFlag},
    {"count_include_pad", Kind::kFlag},
    {"delta", Kind::kScalar},
    {"depth", Kind::kInteger},
    {"diagonal", Kind::kInteger},
    {"dilations", Kind::kIntegers},
    {"dims", Kind::kIntegers},
    {"dtype", Kind::kDType},
    {"end", Kind::kInteger},
    {"ends", Kind::kSizes},
    {"epsilon", Kind::kNumber},
    {"exclusive", Kind::kFlag},
    {"groups", Kind::kInteger},
    {"ignore_index", Kind::kInteger},
    {"keepdim", Kind::kFlag},
    {"kernel", Kind::kIntegers},
    {"key", Kind::kInteger},
    {"layout", Kind::kText},
    {"limit", Kind::kScalar},
    {"max", Kind::kScalar},
    {"min", Kind::kScalar},
    {"mode", Kind::kText},
    {"momentum", Kind::kNumber},
    {"pads", Kind::kSizes},
    {"ratio", Kind::kNumber},
    {"repeats", Kind::kSizes},
    {"reverse", Kind::kFlag},
    {"rounding", Kind::kText},
    {"shape", Kind::kSizes},
    {"size", Kind::kIntegers},
    {"sizes", Kind::kSizes},
    {"start", Kind::kScalar},
    {"starts", Kind::kSizes},
    {"steps", Kind::kSizes},
    {"strides", Kind::kIntegers},
    {"training", Kind::kFlag},
    {"upper", Kind::kFlag},
}};

std::optional<Kind> kind_of(const OpInfo& op, std::string_view name) {
  if (name == "value") return Kind::kScalar;
  if (name == "start" && op.name == "core.shape") return Kind::kInteger;
  if (name == "pads" && op.name != "core.pad") return Kind::kIntegers;
  const auto row = std::lower_bound(kRows.begin(), kRows.end(), name,
                                    [](const Row& row, std::string_view key) { return row.name < key; });
  return row != kRows.end() && row->name == name ? std::optional(row->kind) : std::nullopt;
}

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
  }
  return "";
}

}  // namespace

std::string attribute_fault(const OpInfo& op, std::string_view name, const Attribute& value) {
  if (std::find(op.attributes.begin(), op.attributes.end(), name) == op.attributes.end()) {
    std::string text = op.name + " has no attribute " + std::string(name) + "; it has";
    for (const std::string& known : op.attributes) text += " " + known;
    return op.attributes.empty() ? text + " none" : text;
  }
  const auto kind = kind_of(op, name);
  if (!kind || fits(*kind, value)) return {};
  return "attribute " + std::string(name) + " of " + op.name + " must be " + std::string(describe(*kind));
}

}  // namespace rannc::ir
