// Spelling of TorchScript source: calls, numbers, lists, symbolic integers.
#include <fmt/format.h>

#include <cmath>

#include "ir/ops/rules.h"

namespace rannc::ir {

namespace {

// Rewrites canonical text of a Dim: `floor((a)/(b))` and `mod(a, b)` become Python's // and %, dots in names
// underscores; max and min are TorchScript's own.
class DimSpelling {
 public:
  explicit DimSpelling(std::string_view text) : text_(text) {}

  std::string until(std::string_view stops) {
    std::string out;
    while (at_ < text_.size() && stops.find(text_[at_]) == std::string_view::npos) out += piece();
    return out;
  }

 private:
  std::string piece() {
    for (const std::string_view name : {"floor(", "mod("}) {
      if (!text_.substr(at_).starts_with(name)) continue;
      at_ += name.size();
      const std::string left = until(",/");
      while (text_[++at_] == ' ') {
      }
      const std::string right = until(")");
      ++at_;
      return "((" + left + ")" + (name == "mod(" ? " % " : " // ") + "(" + right + "))";
    }
    if (is_letter(text_[at_])) return word();
    if (text_[at_] == '(') return parenthesised();
    return std::string(1, text_[at_++]);
  }
  std::string word() {
    std::string out;
    for (; at_ < text_.size() && (is_letter(text_[at_]) || std::isdigit(static_cast<unsigned char>(text_[at_])));
         ++at_) {
      out += text_[at_] == '.' ? '_' : text_[at_];
    }
    return out;
  }
  std::string parenthesised() {
    ++at_;
    std::string out = "(" + until(")") + ")";
    ++at_;
    return out;
  }
  static bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string torchscript(const Dim& dim) {
  if (dim == Dim(INT64_MIN)) return "(-9223372036854775807 - 1)";  // the language reads the sign by itself
  const std::string text = dim.str();
  return dim.is_constant() ? text : DimSpelling(text).until("");
}

// `[0][:0]` is an empty list of integers: `[]` would be one of tensors, and `annotate` is not known to every loader.
std::string torchscript(const Shape& shape) {
  if (shape.empty()) return "[0][:0]";
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + torchscript(shape[i]);
  return out + "]";
}

namespace ops {

std::string assign(const LowerCall& call, std::string_view function, std::initializer_list<std::string> arguments) {
  std::string out = call.outputs[0] + " = torch." + std::string(function) + "(";
  bool first = true;
  for (const std::string& argument : arguments) {
    out += (first ? "" : ", ") + argument;
    first = false;
  }
  return out + ")\n";
}

Result<std::string> lower_same_name(const LowerCall& call) {
  std::string out = call.outputs[0] + " = torch." + std::string(short_name(call.op)) + "(";
  for (size_t i = 0; i < call.inputs.size(); ++i) out += (i == 0 ? "" : ", ") + operand(call, i);
  return out + ")\n";
}

std::string int_list(std::span<const int64_t> values) {
  if (values.empty()) return "[0][:0]";
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string number(double value) {
  if (std::isnan(value)) return "float('nan')";
  if (std::isinf(value)) return value > 0 ? "float('inf')" : "float('-inf')";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string dtype_code(DType dtype) { return std::to_string(torch_number(dtype)); }

std::string flag(bool value) { return value ? "True" : "False"; }

std::string operand(const LowerCall& call, size_t index) {
  return index < call.inputs.size() && !call.inputs[index].empty() ? call.inputs[index] : "None";
}

const Shape& shape_of(const ValueType& type) {
  RANNC_CHECK(type.shape.has_value()) << "lowering needs known ranks";
  return *type.shape;
}

double number_value(const Attribute& attribute) {
  if (const auto* value = std::get_if<double>(&attribute)) return *value;
  if (const auto* value = std::get_if<bool>(&attribute)) return *value ? 1 : 0;
  const auto* value = std::get_if<Dim>(&attribute);
  RANNC_CHECK(value && value->is_constant()) << "attribute is not a number";
  return static_cast<double>(value->constant());
}

std::string number_attribute(const Attribute& attribute, DType dtype) {
  if (dtype == DType::kBool) return flag(number_value(attribute) != 0);
  if (is_float(dtype)) return number(number_value(attribute));
  if (const auto* value = std::get_if<Dim>(&attribute)) return torchscript(*value);
  constexpr double kFar = 0x1p63;
  const double value = number_value(attribute);
  if (std::isnan(value)) return "0";
  return torchscript(Dim(value >= kFar ? INT64_MAX : value < -kFar ? INT64_MIN : static_cast<int64_t>(value)));
}

Result<Shape> lowered_list(const LowerCall& call, std::string_view name, size_t operand) {
  if (const Shape* list = call.attributes.list(name)) return *list;
  if (operand < call.input_types.size() && call.input_types[operand] && call.input_types[operand]->contents) {
    return *call.input_types[operand]->contents;
  }
  return error("`" + std::string(name) + "` of " + call.op.name + " is not known when code is generated");
}

}  // namespace ops
}  // namespace rannc::ir
