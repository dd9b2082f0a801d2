#include "frontend/torchscript/internal/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace rannc::frontend::torchscript {

namespace {

std::string short_of(std::string_view schema) {
  std::string_view name = schema.substr(0, schema.find('.', schema.find("::")));
  if (name.starts_with("aten::")) name.remove_prefix(6);
  return std::string(name);
}

}  // namespace

Call::Call(ir::Graph& graph, Location where, std::string schema, std::string stem, std::vector<Argument> arguments,
           ImportNotes& notes)
    : TaskWriter(graph, std::move(where), schema, std::move(stem)),
      schema_(std::move(schema)),
      op_(short_of(schema_)),
      arguments_(std::move(arguments)),
      notes_(notes) {}

void Call::become(std::string schema) {
  schema_ = std::move(schema);
  op_ = short_of(schema_);
}

const Item& Call::item(std::string_view name) const {
  static const Item kNone;
  for (const Argument& argument : arguments_) {
    if (argument.name == name) return argument.item;
  }
  return kNone;
}

const Item& Call::item(size_t index) const {
  static const Item kNone;
  return index < arguments_.size() ? arguments_[index].item : kNone;
}

ValueId Call::tensor(const Item& item, std::string_view name) {
  if (const auto* tensor = item.get<TensorRef>()) return (*tensor)->read(*this);
  if (const auto* size = item.get<ir::Dim>())
    return emit("full", {}, {{"shape", ir::Shape{}}, {"value", *size}, {"dtype", ir::DType::kI64}});
  if (const auto* truth = item.get<bool>())
    return emit("full", {}, {{"shape", ir::Shape{}}, {"value", *truth}, {"dtype", ir::DType::kBool}});
  if (const auto* number = item.get<double>()) return scalar(*number, ir::DType::kF32);
  if (const auto* ratio = item.get<Ratio>()) {
    const ir::Attributes wide = {{"dtype", ir::DType::kF64}};
    const ValueId above = tensor(Item(ratio->above), name), below = tensor(Item(ratio->below), name);
    return emit("div", {emit("cast", {above}, wide), emit("cast", {below}, wide)});
  }
  if (item.is_of_data()) return item.get<Undecided>()->of->read(*this);
  fail(fmt::format("{}: {} is {}; expected a tensor", schema_, name, describe(item)));
  return {};
}

std::vector<ValueId> Call::tensors(std::string_view name) {
  std::vector<ValueId> found;
  const Sequence* const list = item(name).sequence();
  if (list == nullptr)
    fail(fmt::format("{}: {} is {}; expected a list of tensors", schema_, name, describe(item(name))));
  if (list == nullptr) return found;
  for (const Item& element : list->elements) found.push_back(tensor(element, name));
  return found;
}

std::optional<ir::Dim> Call::size_of(const Item& item) {
  if (const auto* size = item.get<ir::Dim>()) return *size;
  if (const auto* truth = item.get<bool>()) return ir::Dim(*truth ? 1 : 0);
  const auto* tensor = item.get<TensorRef>();
  if (tensor == nullptr) return std::nullopt;
  const auto known = contents((*tensor)->read(*this));
  return known && known->size() == 1 ? std::optional(known->front()) : std::nullopt;
}

std::optional<double> Call::number_of(const Item& item) {
  if (const auto* number = item.get<double>()) return *number;
  if (const auto* truth = item.get<bool>()) return *truth ? 1 : 0;
  const auto* size = item.get<ir::Dim>();
  return size && size->is_constant() ? std::optional(static_cast<double>(size->constant())) : std::nullopt;
}

ir::Dim Call::size(std::string_view name) {
  const auto found = size_of(item(name));
  if (!found)
    fail(fmt::format("{}: {} is {}; expected an integer that follows from sizes", schema_, name, describe(item(name))));
  return found.value_or(ir::Dim(1));
}

int64_t Call::integer(std::string_view name) {
  const ir::Dim found = size(name);
  if (!found.is_constant()) fail(fmt::format("{}: {} is {}; expected a plain integer", schema_, name, found.str()));
  return found.is_constant() ? found.constant() : 1;
}

double Call::number(std::string_view name) {
  const Item& given = item(name);
  if (const auto found = number_of(given)) return *found;
  if (const auto* tensor = given.get<TensorRef>()) {
    if (const auto found = TaskWriter::number((*tensor)->read(*this))) return *found;
  }
  fail(fmt::format("{}: {} is {}; expected a number", schema_, name, describe(given)));
  return 0;
}

bool Call::flag(std::string_view name) {
  if (const auto* truth = item(name).get<bool>()) return *truth;
  fail(fmt::format("{}: {} is {}; expected a truth value that is known before the model runs", schema_, name,
                   describe(item(name))));
  return false;
}

std::string Call::text(std::string_view name) {
  if (const auto* text = item(name).get<std::string>()) return *text;
  fail(fmt::format("{}: {} is {}; expected a text", schema_, name, describe(item(name))));
  return {};
}

ir::Shape Call::sizes(std::string_view name) {
  const Item& given = item(name);
  ir::Shape found;
  if (const Sequence* const list = given.sequence()) {
    for (const Item& element : list->elements) {
      const auto size = size_of(element);
      if (!size)
        fail(fmt::format("{}: {} has {}; expected integers that follow from sizes", schema_, name, describe(element)));
      found.push_back(size.value_or(ir::Dim(1)));
    }
  } else {
    found.push_back(size(name));
  }
  return found;
}

std::vector<int64_t> Call::integers(std::string_view name) {
  std::vector<int64_t> found;
  for (const ir::Dim& size : sizes(name)) {
    if (!size.is_constant()) fail(fmt::format("{}: {} has {}; expected plain integers", schema_, name, size.str()));
    found.push_back(size.is_constant() ? size.constant() : 1);
  }
  return found;
}

ir::DType Call::dtype(std::string_view name, ir::DType otherwise) {
  if (!has(name)) return otherwise;
  const int64_t number = integer(name);
  const auto found = ir::dtype_of_torch(static_cast<int>(number));
  if (!found) fail(fmt::format("{}: {} is PyTorch's element type {}, which is not supported", schema_, name, number));
  return found.value_or(otherwise);
}

int64_t Call::rank(ValueId value) {
  const ir::Shape* const found = shape(value);
  return found ? static_cast<int64_t>(found->size()) : 0;
}

void Call::result(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes) {
  result_with_auxiliary(op, operands, std::move(attributes), 0);
}

void Call::result(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes) {
  result(op, std::span(operands.begin(), operands.size()), std::move(attributes));
}

std::vector<ValueId> Call::result_with_auxiliary(std::string_view op, std::span<const ValueId> operands,
                                                 ir::Attributes attributes, size_t auxiliary) {
  std::vector<std::string> names = {stem()};
  const auto& results = ir::core(op).results;
  for (size_t i = 1; i <= auxiliary; ++i) names.push_back(name_of(results[i].name));
  const auto made = add(op, operands, std::move(attributes), names);
  if (made.empty()) return {};
  give(made[0]);
  return {made.begin() + 1, made.end()};
}

void Call::result_foreign(const std::string& op, std::span<const ValueId> operands, const ir::ForeignCall& call) {
  std::vector<std::string> names = {stem()};
  for (size_t i = 1; i < call.types.results.size(); ++i) names.push_back(name_of(std::to_string(i)));
  const TaskId task = graph().add_task(graph().foreign_op(op), operands, ir::foreign_attributes(call), names, where());
  if (const auto typed = ir::infer_types(graph(), task); !typed.ok()) return fail(typed.diagnostic());
  // A result that shares memory in ATen is a copy here. Writes for which that makes a difference are rejected.
  const auto* behind = static_cast<const TensorRef*>(nullptr);
  for (const Argument& each : arguments_) {
    if (behind == nullptr) behind = each.item.get<TensorRef>();
  }
  std::vector<Item> made;
  for (const ValueId each : graph().outputs(task)) {
    made.emplace_back(call.view && behind ? Tensor::unsure(each, *behind) : std::make_shared<Tensor>(each));
  }
  if (call.list) return give(list_of(std::move(made)));
  for (Item& each : made) give(std::move(each));
}

Item Call::view(const Item& of, std::string_view op, ir::Attributes attributes) {
  const auto* tensor = of.get<TensorRef>();
  const ValueId behind = this->tensor(of, "self");
  if (!good()) return {};
  const std::array operands = {behind};
  const std::array names = {stem()};
  const auto made = add(op, operands, attributes, names);
  if (made.empty()) return {};
  if (tensor == nullptr) return std::make_shared<Tensor>(made[0]);
  return std::make_shared<Tensor>(made[0], *tensor, View{std::string(op), std::move(attributes)});
}

void Call::result_unsure(std::string_view argument, std::string_view op, ir::Attributes attributes) {
  const auto* tensor = item(argument).get<TensorRef>();
  const std::array operands = {this->tensor(argument)};
  const std::array names = {stem()};
  const auto made = add(op, operands, std::move(attributes), names);
  if (made.empty()) return;
  give(tensor ? Item(Tensor::unsure(made[0], *tensor)) : Item(std::make_shared<Tensor>(made[0])));
}

namespace {

// Booleans, integers, floats.
int kind_of(ir::DType dtype) { return dtype == ir::DType::kBool ? 0 : ir::is_float(dtype) ? 2 : 1; }

// Implements torch.promote_types.
ir::DType wider(ir::DType a, ir::DType b) {
  if (a == b) return a;
  if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
  const uint32_t size_a = ir::byte_size(a), size_b = ir::byte_size(b);
  if (kind_of(a) == 2) return size_a == size_b ? ir::DType::kF32 : size_a > size_b ? a : b;
  const auto is_unsigned = [](ir::DType type) {
    return type == ir::DType::kU8 || type == ir::DType::kU16 || type == ir::DType::kU32 || type == ir::DType::kU64;
  };
  if (is_unsigned(a) == is_unsigned(b)) return size_a > size_b ? a : b;
  const ir::DType natural = is_unsigned(a) ? a : b, integer = is_unsigned(a) ? b : a;
  if (ir::byte_size(integer) > ir::byte_size(natural)) return integer;
  switch (natural) {
    case ir::DType::kU8:
      return ir::DType::kI16;
    case ir::DType::kU16:
      return ir::DType::kI32;
    default:
      return ir::DType::kI64;
  }
}

std::optional<ir::DType> wider(std::optional<ir::DType> a, ir::DType b) { return a ? wider(*a, b) : b; }

// A type with precedence is kept unless a later one has a higher kind.
std::optional<ir::DType> overruled(std::optional<ir::DType> earlier, std::optional<ir::DType> later) {
  if (!earlier || !later) return earlier ? earlier : later;
  return kind_of(*later) > kind_of(*earlier) ? later : earlier;
}

}  // namespace

std::optional<ir::DType> common_type(const Call& call, std::span<const Item> items) {
  std::optional<ir::DType> of_axes, of_none, of_numbers;
  for (const Item& item : items) {
    if (const auto* tensor = item.get<TensorRef>()) {
      const ir::ValueType& type = call.type((*tensor)->now());
      auto& of = type.shape && type.shape->empty() ? of_none : of_axes;
      of = wider(of, type.dtype);
    } else if (item.is_of_data()) {
      of_numbers = wider(of_numbers, call.dtype(item.get<Undecided>()->of->now()));
    } else if (item.get<ir::Dim>()) {
      of_numbers = wider(of_numbers, ir::DType::kI64);
    } else if (item.get<double>() || item.get<Ratio>()) {
      of_numbers = wider(of_numbers, ir::DType::kF32);
    } else if (item.get<bool>()) {
      of_numbers = wider(of_numbers, ir::DType::kBool);
    }
  }
  return overruled(of_axes, overruled(of_none, of_numbers));
}

std::vector<ValueId> promoted(Call& call, std::span<const Item> items) {
  const auto type = common_type(call, items);
  std::vector<ValueId> values;
  for (const Item& item : items) {
    const auto number = Call::number_of(item);
    const bool is_number = number && type && (ir::is_float(*type) || item.get<ir::Dim>() == nullptr);
    if (is_number) {
      values.push_back(*type == ir::DType::kBool ? call.tensor(item, "other") : call.scalar(*number, *type));
    } else {
      const ValueId value = call.tensor(item, "other");
      values.push_back(type ? call.cast(value, *type) : value);
    }
  }
  return values;
}

std::vector<ValueId> promoted(Call& call, std::initializer_list<std::string_view> names) {
  std::vector<Item> items;
  for (const std::string_view name : names) items.push_back(call.item(name));
  return promoted(call, items);
}

void convert_results(Call& call, ir::DType dtype) {
  for (Item& each : call.results()) {
    const ValueId made = call.tensor(each, "result");
    if (call.good() && call.dtype(made) != dtype) each = Item(std::make_shared<Tensor>(call.cast(made, dtype)));
  }
}

void rounded_once(Call& call, void (*translate)(Call&)) {
  std::vector<Item> tensors;
  for (const Call::Argument& each : call.arguments()) {
    if (each.item.get<TensorRef>() != nullptr) tensors.push_back(each.item);
  }
  const auto type = common_type(call, tensors);
  if (type != ir::DType::kF16 && type != ir::DType::kBF16) return translate(call);
  const std::vector<Call::Argument> given = call.arguments();
  std::vector<Call::Argument> wide = given;
  for (Call::Argument& each : wide) {
    if (each.item.get<TensorRef>() == nullptr) continue;
    const ValueId value = call.tensor(each.item, each.name), widened = call.widened(value);
    if (widened != value) each.item = Item(std::make_shared<Tensor>(widened));
  }
  call.become(std::move(wide));
  translate(call);
  call.become(given);
  convert_results(call, *type);
}

}  // namespace rannc::frontend::torchscript
