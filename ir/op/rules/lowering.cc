// Helpers of lowering rules.
#include <fmt/format.h>

#include <cmath>

#include "ir/op/rules/rules.h"

namespace rannc::ir {

namespace {

aten::Argument::Kind filled(const AttributeInfo& attribute, const OpAttributes& attributes) {
  switch (attribute.kind) {
    case AttributeKind::kInteger:
      return Dim(attributes.integer(attribute.name));
    case AttributeKind::kFlag:
      return attributes.flag(attribute.name);
    case AttributeKind::kNumber:
      return attributes.number(attribute.name);
    case AttributeKind::kText:
      return aten::Text{attributes.text(attribute.name)};
    case AttributeKind::kIntegers:
    case AttributeKind::kSizes:
      return *attributes.list(attribute.name);
    default:
      RANNC_CHECK(false) << "a template takes no attribute like " << attribute.name;
      return aten::None{};
  }
}

aten::Lowering filled(const OpInfo& op, const OpAttributes& attributes) {
  std::vector<aten::Argument> arguments;
  for (const aten::Template::Slot& slot : op.form->slots) {
    if (const auto* from = std::get_if<aten::FromAttribute>(&slot.value)) {
      const AttributeInfo* attribute = op.attribute(from->name);
      RANNC_CHECK(attribute != nullptr) << op.name << " has no attribute " << from->name;
      arguments.emplace_back(slot.name, filled(*attribute, attributes));
    } else {
      arguments.emplace_back(slot.name, std::get<aten::Argument::Kind>(slot.value));
    }
  }
  return ops::one_call(op.form->schema, std::move(arguments));
}

}  // namespace

Result<aten::Lowering> lowering(const LowerCall& call) {
  if (call.op.form) return filled(call.op, call.attributes);
  if (call.op.lower == nullptr) return error("operator `" + call.op.name + "` has no lowering");
  return call.op.lower(call);
}

namespace ops {

aten::Made Calls::operator()(std::string schema, std::vector<aten::Argument> arguments, uint32_t results) {
  made_.calls.push_back({std::move(schema), std::move(arguments), results});
  return {static_cast<uint32_t>(made_.calls.size() - 1)};
}

aten::Lowering Calls::with(std::vector<aten::Value> results) && {
  made_.results = std::move(results);
  return std::move(made_);
}

aten::Lowering one_call(std::string schema, std::vector<aten::Argument> arguments) {
  return {{{std::move(schema), std::move(arguments)}}, {aten::Made{0}}};
}

aten::Value shaped(Calls& calls, const Shape& shape) {
  const aten::Value one = calls("aten::new_empty", {aten::Operand{0}, Shape{Dim(1)}});
  return calls("aten::expand", {one, shape});
}

aten::Lowering passed_on() { return {{}, {aten::Operand{0}}}; }

Result<void> require_cpu(const LowerCall& call, std::string_view kernel) {
  if (call.device == DeviceType::kCpu) return {};
  return error("`" + std::string(kernel) + "` runs on a CPU only, not on " + std::string(str(call.device)) +
               ": compile the model for a cluster of such devices");
}

OpInfo by_rule(OpInfo op, LowerRule lower, std::vector<std::string_view> aten, std::vector<AttributeInfo> attributes) {
  op.lower = lower;
  op.aten = std::move(aten);
  if (!attributes.empty()) op.attributes = std::move(attributes);
  return op;
}

aten::Template form(std::string schema, uint32_t operands, std::vector<aten::Template::Slot> slots) {
  aten::Template made{std::move(schema), {}};
  for (uint32_t k = 0; k < operands; ++k)
    made.slots.push_back({"", aten::Argument::Kind(aten::Value(aten::Operand{k}))});
  made.slots.insert(made.slots.end(), slots.begin(), slots.end());
  return made;
}

std::string number(double value) { return fmt::format("{}", value); }

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

aten::Scalar number_attribute(const Attribute& attribute, DType dtype) {
  if (dtype == DType::kBool) return {number_value(attribute) != 0};
  if (is_float(dtype)) return {number_value(attribute)};
  if (const auto* value = std::get_if<Dim>(&attribute)) return {*value};
  constexpr double kFar = 0x1p63;
  const double value = number_value(attribute);
  if (std::isnan(value)) return {Dim(0)};
  return {Dim(value >= kFar ? INT64_MAX : value < -kFar ? INT64_MIN : static_cast<int64_t>(value))};
}

Result<Shape> lowered_list(const LowerCall& call, std::string_view name, size_t operand) {
  if (const Shape* list = call.attributes.list(name)) return *list;
  if (call.has(operand) && call.inputs[operand]->contents) return *call.inputs[operand]->contents;
  return error("`" + std::string(name) + "` of " + call.op.name + " is not known when code is generated");
}

}  // namespace ops
}  // namespace rannc::ir
