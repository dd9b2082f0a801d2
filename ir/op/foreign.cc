#include "ir/op/foreign.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/internal/text_cursor.h"
#include "ir/internal/text_writer.h"

namespace rannc::ir {

namespace {

constexpr std::string_view kSchema = "call.schema", kOperands = "call.operands", kTypes = "call.types",
                           kDevice = "call.device", kNone = "call.none", kGuessed = "call.guessed", kList = "call.list",
                           kView = "call.view";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(std::string_view text) {
  const auto inner = [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), inner);
}

/// Parts of a schema name: `aten`, `cdist` and the overload, which may be empty.
struct SchemaName {
  std::string_view space, name, overload;
};
std::optional<SchemaName> taken_apart(std::string_view schema) {
  const size_t colons = schema.find("::");
  if (colons == std::string_view::npos) return std::nullopt;
  SchemaName found{schema.substr(0, colons), schema.substr(colons + 2), {}};
  const size_t dot = found.name.find('.');
  if (dot != std::string_view::npos) {
    found.overload = found.name.substr(dot + 1);
    found.name = found.name.substr(0, dot);
    if (!is_name(found.overload)) return std::nullopt;
  }
  if (!is_name(found.space) || !is_name(found.name)) return std::nullopt;
  return found;
}

/// Parses `input tensors*2 mask`.
Result<std::vector<ForeignOperand>> parse_operands(std::string_view text) {
  std::vector<ForeignOperand> found;
  while (!text.empty()) {
    const size_t blank = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(std::min(blank + 1, text.size()));
    const size_t star = std::min(word.find('*'), word.size());
    ForeignOperand operand{std::string(word.substr(0, star)), {}};
    if (!is_name(operand.parameter)) return error(fmt::format("`{}` is no parameter of a schema", word));
    if (star < word.size()) {
      const std::string_view digits = word.substr(star + 1);
      const bool number = !digits.empty() && digits.size() < 7 &&
                          std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (!number) return error(fmt::format("`{}` does not say how many operands a list has", word));
      operand.count = static_cast<uint32_t>(std::stoul(std::string(digits)));
    }
    found.push_back(std::move(operand));
  }
  return found;
}

size_t operand_count(const std::vector<ForeignOperand>& operands) {
  size_t count = 0;
  for (const ForeignOperand& operand : operands) count += operand.count.value_or(1);
  return count;
}

/// Bindings of the symbols of declared types.
class Instance {
 public:
  explicit Instance(const ForeignTypes& declared) : declared_(declared) {}

  Result<void> fit(const std::vector<const ValueType*>& operands) {
    if (operands.size() != declared_.operands.size()) {
      return error(fmt::format("there are {} operands; its types are declared for {}", operands.size(),
                               declared_.operands.size()));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] != nullptr && !operands[i]->shape)
        return error(fmt::format("the rank of operand {} is not known", i));
      if (!same_kind(operands[i], declared_.operands[i])) return misfit(i, operands[i]);
      if (operands[i] != nullptr) bind(*operands[i], *declared_.operands[i]);
    }
    number_symbols();
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == nullptr) continue;
      const ValueType& declared = *declared_.operands[i];
      const BatchLayout layout = instance(declared.batch);
      const bool placed = layout.axis == operands[i]->batch.axis && layout.outer == operands[i]->batch.outer &&
                          layout.inner == operands[i]->batch.inner;
      if (instance(*declared.shape) != *operands[i]->shape || !placed) return misfit(i, operands[i]);
    }
    return {};
  }

  std::vector<ValueType> results() const {
    std::vector<ValueType> found;
    for (const ValueType& declared : declared_.results) {
      ValueType type = declared;
      type.shape = instance(*declared.shape);
      type.batch = instance(declared.batch);
      const auto other = dtypes_.find(declared.dtype);
      if (other != dtypes_.end()) type.dtype = other->second;
      found.push_back(std::move(type));
    }
    return found;
  }

 private:
  /// Whether element types agree, or are floats that are all replaced by one other float type.
  bool same_kind(const ValueType* given, const std::optional<ValueType>& declared) {
    if ((given != nullptr) != declared.has_value()) return false;
    if (given == nullptr) return true;
    if (given->shape->size() != declared->shape->size()) return false;
    const auto exchanged = dtypes_.emplace(declared->dtype, given->dtype).first;
    return exchanged->second == given->dtype &&
           (given->dtype == declared->dtype || (is_float(given->dtype) && is_float(declared->dtype)));
  }

  void bind(const ValueType& given, const ValueType& declared) {
    for (size_t axis = 0; axis < declared.shape->size(); ++axis) {
      const Dim& dim = (*declared.shape)[axis];
      if (dim.is_symbol()) bound_.emplace(dim.symbol_name(), (*given.shape)[axis]);
    }
  }

  // Replaces all symbols at once, because the expression for one may contain the name of another.
  void number_symbols() {
    for (const auto& [symbol, dim] : bound_) numbered_.emplace_back(symbol, fmt::format("call_{}_", numbered_.size()));
  }

  Dim instance(const Dim& dim) const {
    if (dim.is_constant()) return dim;
    Dim found = dim;
    for (const auto& [symbol, number] : numbered_) found = found.substitute(symbol, Dim::symbol(number));
    for (const auto& [symbol, number] : numbered_) found = found.substitute(number, bound_.at(symbol));
    return found;
  }
  Shape instance(const Shape& shape) const {
    Shape found;
    for (const Dim& dim : shape) found.push_back(instance(dim));
    return found;
  }
  BatchLayout instance(BatchLayout layout) const {
    layout.outer = instance(layout.outer);
    layout.inner = instance(layout.inner);
    return layout;
  }

  static std::string spelled(const std::optional<ValueType>& type) {
    std::string text;
    if (!type) return "absent";
    append_type(text, *type);
    return text;
  }

  Diagnostic misfit(size_t index, const ValueType* given) const {
    std::optional<ValueType> found;
    if (given != nullptr) found = *given;
    if (found) found->contents.reset();
    return error(fmt::format("operand {} is {}; its types are declared for {}", index, spelled(found),
                             spelled(declared_.operands[index])));
  }

  const ForeignTypes& declared_;
  std::map<std::string, Dim> bound_;
  std::map<DType, DType> dtypes_;
  std::vector<std::pair<std::string, std::string>> numbered_;
};

/// Checks that each symbol of a result occurs in operands or arguments, because renaming sizes reaches only those.
Result<void> check_symbols(const ForeignCall& call) {
  std::set<std::string> known, used;
  const auto collect = [](const Shape& shape, std::set<std::string>& into) {
    for (const Dim& dim : shape) dim.collect_symbols(into);
  };
  for (const auto& operand : call.types.operands) {
    if (operand) collect(*operand->shape, known);
  }
  for (const auto& [name, value] : call.arguments) {
    if (const auto* dim = std::get_if<Dim>(&value)) dim->collect_symbols(known);
    if (const auto* list = std::get_if<Shape>(&value)) collect(*list, known);
  }
  for (const ValueType& result : call.types.results) collect(*result.shape, used);
  for (const std::string& symbol : used) {
    if (!known.contains(symbol))
      return error(fmt::format("size `{}` of a result does not occur in operands or arguments", symbol));
  }
  return {};
}

// --- rules of the entry

Result<ForeignCall> call_of(const OpInfo& op, const OpAttributes& attributes) {
  RANNC_ASSIGN(ForeignCall call, foreign_call(attributes.given()));
  const bool named = &op == &any_foreign_op() || op.name == foreign_name(call.schema);
  if (!named)
    return error(fmt::format("{}: it calls {}, which is {}", op.name, call.schema, foreign_name(call.schema)));
  return call;
}

Result<std::vector<ValueType>> infer(const OpCall& request) {
  RANNC_ASSIGN(const ForeignCall call, call_of(request.op, request.attributes));
  if (call.types.results.size() != request.output_count) {
    return error(fmt::format("there are {} results; {} are declared", request.output_count, call.types.results.size()));
  }
  RANNC_TRY(check_symbols(call));
  return foreign_types(call, {request.inputs.begin(), request.inputs.end()});
}

aten::Argument argument(const std::string& name, const Attribute& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return {name, *flag};
  if (const auto* dim = std::get_if<Dim>(&value)) return {name, *dim};
  if (const auto* number = std::get_if<double>(&value)) return {name, *number};
  if (const auto* dtype = std::get_if<DType>(&value)) return {name, *dtype};
  if (const auto* list = std::get_if<Shape>(&value)) return {name, *list};
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) return {name, *numbers};
  return {name, aten::Text{std::get<std::string>(value)}};
}

std::vector<aten::Argument> arguments_of(const ForeignCall& call) {
  std::vector<aten::Argument> arguments;
  uint32_t operand = 0;
  for (const ForeignOperand& each : call.operands) {
    if (!each.count) {
      arguments.emplace_back(each.parameter, aten::Value(aten::Operand{operand++}));
      continue;
    }
    std::vector<aten::Value> list;
    for (uint32_t i = 0; i < *each.count; ++i) list.emplace_back(aten::Operand{operand++});
    arguments.emplace_back(each.parameter, std::move(list));
  }
  for (const auto& [name, value] : call.arguments) arguments.push_back(argument(name, value));
  for (const std::string& name : call.none) arguments.emplace_back(name, aten::None{});
  if (!call.device.empty()) arguments.emplace_back(call.device, aten::Device{});
  return arguments;
}

/// Whether operands have another float type than declared, so that the result types were never observed.
bool is_exchanged(const ForeignCall& call, std::span<const ValueType* const> operands) {
  for (size_t i = 0; i < operands.size() && i < call.types.operands.size(); ++i) {
    const auto& declared = call.types.operands[i];
    if (operands[i] != nullptr && declared && operands[i]->dtype != declared->dtype) return true;
  }
  return false;
}

Result<aten::Lowering> lower(const LowerCall& request) {
  RANNC_ASSIGN(const ForeignCall call, call_of(request.op, request.attributes));
  const auto results = static_cast<uint32_t>(request.outputs.size());
  aten::Lowering lowering;
  lowering.calls.push_back({call.schema, arguments_of(call), results, call.list});
  for (uint32_t i = 0; i < results; ++i) {
    aten::Value value = aten::Made{0, i};
    if (call.guessed || is_exchanged(call, request.inputs)) {
      if (!request.outputs[i]->shape) return error("the rank of its result is not known");
      lowering.calls.push_back(
          {std::string(kForeignAssert),
           {{"a", value}, {"size", *request.outputs[i]->shape}, {"dtype", request.outputs[i]->dtype}},
           0});
    }
    if (call.view) {
      lowering.calls.push_back({"aten::clone", {value}});
      value = aten::Made{static_cast<uint32_t>(lowering.calls.size() - 1)};
    }
    lowering.results.push_back(value);
  }
  return lowering;
}

OpInfo entry(std::string name) {
  using Kind = AttributeKind;
  OpInfo op;
  op.name = std::move(name);
  op.summary = "a call of LibTorch's dispatcher";
  op.operands = {{.name = "operands", .presence = Presence::kVariadic}};
  op.results = {{"results", Presence::kVariadic}};
  op.attributes = {{kSchema, Kind::kText, {}, true},    {kOperands, Kind::kText, std::string()},
                   {kTypes, Kind::kText, {}, true},     {kDevice, Kind::kText, std::string()},
                   {kNone, Kind::kText, std::string()}, {kGuessed, Kind::kFlag, false},
                   {kList, Kind::kFlag, false},         {kView, Kind::kFlag, false}};
  op.autocast = Autocast::kFloat32;
  op.infer = infer;
  op.lower = lower;
  return op;
}

}  // namespace

std::string str(const ForeignTypes& types) {
  std::string text;
  for (const auto& operand : types.operands) {
    text += text.empty() ? "" : ", ";
    if (operand) {
      append_type(text, *operand);
    } else {
      text += '_';
    }
  }
  text += text.empty() ? "->" : " ->";
  const char* before = " ";
  for (const ValueType& result : types.results) {
    text += before;
    before = ", ";
    append_type(text, result);
  }
  return text;
}

Result<ForeignTypes> parse_foreign_types(std::string_view text) {
  const std::string file;
  TextCursor line(text, 1, file);
  ForeignTypes found;
  while (!line.accept("->")) {
    if (!found.operands.empty()) RANNC_TRY(line.expect(","));
    found.operands.emplace_back();
    if (line.accept("_")) continue;
    RANNC_ASSIGN(found.operands.back(), line.type());
    if (!found.operands.back()->shape) return line.expected("a rank");
  }
  do {
    RANNC_ASSIGN(ValueType result, line.type());
    if (!result.shape) return line.expected("a rank");
    found.results.push_back(std::move(result));
  } while (line.accept(","));
  RANNC_TRY(line.expect_end());
  return found;
}

std::string foreign_name(std::string_view schema) {
  const auto parts = taken_apart(schema);
  return parts ? fmt::format("{}.{}", parts->space, parts->name) : std::string(schema);
}

bool is_foreign_name(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view space = name.substr(0, dot);
  return is_name(space) && is_name(name.substr(dot + 1)) && space != "core" && space != "vjp";
}

Attributes foreign_attributes(const ForeignCall& call) {
  Attributes attributes = call.arguments;
  attributes.set(kSchema, call.schema);
  std::string operands;
  for (const ForeignOperand& operand : call.operands) {
    operands += (operands.empty() ? "" : " ") + operand.parameter;
    if (operand.count) operands += fmt::format("*{}", *operand.count);
  }
  if (!operands.empty()) attributes.set(kOperands, operands);
  attributes.set(kTypes, str(call.types));
  if (!call.device.empty()) attributes.set(kDevice, call.device);
  if (!call.none.empty()) attributes.set(kNone, fmt::format("{}", fmt::join(call.none, " ")));
  if (call.guessed) attributes.set(kGuessed, true);
  if (call.list) attributes.set(kList, true);
  if (call.view) attributes.set(kView, true);
  return attributes;
}

Result<ForeignCall> foreign_call(const Attributes& attributes) {
  ForeignCall call;
  call.schema = attributes.text(kSchema);
  if (!taken_apart(call.schema)) return error(fmt::format("`{}` is not a schema of LibTorch", call.schema));
  RANNC_ASSIGN(call.operands, parse_operands(attributes.text(kOperands)));
  const auto types = parse_foreign_types(attributes.text(kTypes));
  if (!types.ok()) return error(fmt::format("{}: {}", kTypes, types.diagnostic().message));
  call.types = *types;
  if (operand_count(call.operands) != call.types.operands.size()) {
    return error(fmt::format("{} names {} operands, {} declares {}", kOperands, operand_count(call.operands), kTypes,
                             call.types.operands.size()));
  }
  call.device = attributes.text(kDevice);
  RANNC_ASSIGN(const std::vector<ForeignOperand> none, parse_operands(attributes.text(kNone)));
  call.guessed = attributes.flag(kGuessed);
  call.list = attributes.flag(kList);
  call.view = attributes.flag(kView);
  std::set<std::string> stands{call.device};
  for (const ForeignOperand& operand : call.operands) {
    if (!stands.insert(operand.parameter).second)
      return error(fmt::format("parameter `{}` is given twice", operand.parameter));
  }
  for (const ForeignOperand& each : none) {
    if (each.count || !stands.insert(each.parameter).second)
      return error(fmt::format("parameter `{}` cannot be None", each.parameter));
    call.none.push_back(each.parameter);
  }
  for (const auto& [name, value] : attributes) {
    if (name.find('.') != std::string::npos) continue;
    if (!stands.insert(name).second) return error(fmt::format("parameter `{}` is given twice", name));
    call.arguments.set(name, value);
  }
  return call;
}

Result<std::vector<ValueType>> foreign_types(const ForeignCall& call, const std::vector<const ValueType*>& operands) {
  Instance instance(call.types);
  RANNC_TRY(instance.fit(operands));
  return instance.results();
}

OpInfo foreign_entry(std::string_view name) { return entry(std::string(name)); }
bool is_foreign(const OpInfo& op) { return op.infer == infer; }
const OpInfo& any_foreign_op() {
  static const OpInfo kOp = entry("call");
  return kOp;
}

std::string foreign_attribute_fault(std::string_view name, const Attribute& value) {
  if (!is_name(name)) return fmt::format("`{}` is no parameter of a schema", name);
  if (std::holds_alternative<Body>(value)) return fmt::format("argument {} cannot be a body", name);
  return {};
}

}  // namespace rannc::ir
