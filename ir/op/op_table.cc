#include "ir/op/op_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/op/op.h"

namespace rannc::ir {

namespace {

std::string_view mark(Presence presence) {
  return presence == Presence::kOptional ? "?" : presence == Presence::kVariadic ? "…" : "";
}

std::string_view str(Role role) {
  switch (role) {
    case Role::kData:
      return "";
    case Role::kWeight:
      return "weight";
    case Role::kIndex:
      return "index";
    case Role::kSize:
      return "size";
    case Role::kStatistics:
      return "statistics";
    case Role::kShape:
      return "shape";
  }
  return "";
}

std::string operands(const OpInfo& op) {
  std::vector<std::string> parts;
  for (const OperandInfo& operand : op.operands) {
    const std::string_view role = str(operand.role);
    parts.push_back(
        fmt::format("{}{}{}", operand.name, mark(operand.presence), role.empty() ? "" : fmt::format(": {}", role)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

struct DefaultText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const Dim& value) const { return value.str(); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(DType value) const { return std::string(ir::str(value)); }
  std::string operator()(const Shape& value) const { return ir::str(value); }
  std::string operator()(const Body&) const { return "body"; }
  std::string operator()(const std::vector<double>& values) const { return fmt::format("{}", fmt::join(values, " ")); }
};

std::string attribute(const AttributeInfo& info) {
  std::string text(info.name);
  if (!info.required && !info.otherwise) text += "?";
  if (info.otherwise) text += "=" + std::visit(DefaultText{}, *info.otherwise);
  if (!info.allowed.empty()) text += fmt::format(" of {}", fmt::join(info.allowed, "/"));
  return text;
}

std::string attributes(const OpInfo& op) {
  std::vector<std::string> parts;
  for (const AttributeInfo& info : op.attributes) parts.push_back(attribute(info));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string results(const OpInfo& op) {
  std::vector<std::string> parts;
  for (const ResultInfo& result : op.results) parts.push_back(fmt::format("{}{}", result.name, mark(result.presence)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string aten_names(const OpInfo& op) {
  std::vector<std::string> parts;
  if (op.form) parts.push_back(op.form->schema);
  parts.insert(parts.end(), op.aten.begin(), op.aten.end());
  for (std::string& part : parts) part = part.substr(part.find(':') + 2);
  for (std::string& part : parts) part = part.substr(0, part.find('.'));
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string row(const OpInfo& op) {
  return fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", op.name.substr(op.name.find('.') + 1), op.summary,
                     operands(op), attributes(op), results(op), fmt::join(op.onnx, " "), aten_names(op));
}

}  // namespace

std::string operator_table() {
  std::vector<std::string_view> families;
  for (const OpInfo& op : core_ops()) {
    if (std::find(families.begin(), families.end(), op.family) == families.end()) families.push_back(op.family);
  }
  std::sort(families.begin(), families.end());
  std::string text;
  for (const std::string_view family : families) {
    text += fmt::format("{}### {}.cc\n", text.empty() ? "" : "\n", family);
    text += "| operator | is | operands | attributes | results | ONNX | ATen |\n|---|---|---|---|---|---|---|\n";
    for (const OpInfo& op : core_ops()) {
      if (op.family == family) text += row(op);
    }
  }
  return text;
}

}  // namespace rannc::ir
