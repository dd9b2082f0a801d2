#include "frontend/torchscript/internal/translators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "frontend/torchscript/internal/dispatched.h"

namespace rannc::frontend::torchscript {

namespace {

using Table = std::unordered_map<std::string_view, void (*)(Call&)>;

Table table_of(std::initializer_list<std::span<const Translator>> families) {
  Table made;
  for (const auto& family : families) {
    for (const Translator& row : family)
      RANNC_CHECK(made.emplace(row.schema, row.translate).second) << row.schema << " has two translators";
  }
  return made;
}

const Table& table() {
  static const Table kTable = table_of(
      {number_translators(), elementwise_translators(), shape_translators(), create_translators(), index_translators(),
       reduce_translators(), dense_translators(), attention_translators(), normalize_translators(), loss_translators(),
       margin_loss_translators(), recurrent_translators(), decomposed_translators(), row_translators(),
       class_translators(), fourier_translators(), to_complex_translators()});
  return kTable;
}

const Table& complex_table() {
  static const Table kTable = table_of({complex_translators(), fourier_translators()});
  return kTable;
}

/// Whether the argument is a complex tensor or, for an operator on tensors, a list with one.
bool is_complex(const Call::Argument& argument) {
  const auto is = [](const Item& item) { return item.get<Complex>() != nullptr; };
  const Sequence* const list = argument.name == "tensors" ? argument.item.sequence() : nullptr;
  return is(argument.item) || (list && std::any_of(list->elements.begin(), list->elements.end(), is));
}

/// The row of an overload, or else of the operator.
void (*row_of(const Table& table, const Call& call))(Call&) {
  const std::string& schema = call.schema();
  auto row = table.find(schema.starts_with("aten::") ? std::string_view(schema).substr(6) : std::string_view(schema));
  if (row == table.end()) row = table.find(call.op());
  return row == table.end() ? nullptr : row->second;
}

/// Core operators that are lowered to one call, by that call's schema. Gradient operators do not occur in programs.
const std::unordered_map<std::string_view, const ir::OpInfo*>& derived() {
  static const auto kDerived = [] {
    std::unordered_map<std::string_view, const ir::OpInfo*> made;
    for (const ir::OpInfo& op : ir::core_ops()) {
      if (op.form && !op.family.starts_with("grad_")) made.emplace(op.form->schema, &op);
    }
    return made;
  }();
  return kDerived;
}

struct Backwards {
  Call& call;
  const ir::OpInfo& op;
  std::vector<ValueId> operands;
  ir::Attributes attributes;

  // Position or name of the argument for a slot.
  const Call::Argument* argument(const ir::aten::Template::Slot& slot, size_t position) const {
    const auto& given = call.arguments();
    if (slot.name.empty()) return position < given.size() ? &given[position] : nullptr;
    for (const Call::Argument& each : given) {
      if (each.name == slot.name) return &each;
    }
    return nullptr;
  }

  void attribute(const ir::AttributeInfo& info, const std::string& name) {
    using Kind = ir::AttributeKind;
    switch (info.kind) {
      case Kind::kInteger:
        return attributes.set(info.name, ir::Dim(call.integer(name)));
      case Kind::kFlag:
        return attributes.set(info.name, call.flag(name));
      case Kind::kNumber:
        return attributes.set(info.name, call.number(name));
      case Kind::kText:
        return attributes.set(info.name, call.text(name));
      case Kind::kIntegers:
      case Kind::kSizes:
        return attributes.set(info.name, call.sizes(name));
      default:
        return call.fail(fmt::format("{}: {} has an unsupported kind", call.schema(), name));
    }
  }

  // Arguments fixed by the template must equal those of the call.
  void literal(const ir::aten::Argument::Kind& wanted, const std::string& name) {
    std::optional<double> number;
    if (const auto* size = std::get_if<ir::Dim>(&wanted)) number = static_cast<double>(size->constant());
    if (const auto* exact = std::get_if<double>(&wanted)) number = *exact;
    if (const auto* truth = std::get_if<bool>(&wanted)) number = *truth ? 1 : 0;
    if (const auto* scalar = std::get_if<ir::aten::Scalar>(&wanted)) {
      if (const auto* size = std::get_if<ir::Dim>(&scalar->number)) number = static_cast<double>(size->constant());
      if (const auto* exact = std::get_if<double>(&scalar->number)) number = *exact;
    }
    const auto given = Call::number_of(call.item(name));
    if (!number || given != number)
      call.fail(
          fmt::format("{}: {} is {}, which no core operator supports", call.schema(), name, describe(call.item(name))));
  }

  void run() {
    std::vector<bool> read(call.arguments().size());
    const auto& slots = op.form->slots;
    for (size_t k = 0; k < slots.size(); ++k) {
      const Call::Argument* const given = argument(slots[k], k);
      if (given == nullptr) return call.fail(fmt::format("{} lacks argument {}", call.schema(), k));
      read[static_cast<size_t>(given - call.arguments().data())] = true;
      if (const auto* from = std::get_if<ir::aten::FromAttribute>(&slots[k].value)) {
        attribute(*op.attribute(from->name), given->name);
      } else if (const auto& kind = std::get<ir::aten::Argument::Kind>(slots[k].value);
                 std::holds_alternative<ir::aten::Value>(kind)) {
        operands.push_back(call.tensor(given->item, given->name));
      } else {
        literal(kind, given->name);
      }
    }
    for (size_t k = 0; k < read.size(); ++k) {
      const Item& rest = call.item(k);
      const bool off = rest.is_none() || (rest.get<bool>() && !*rest.get<bool>());
      if (!read[k] && !off)
        return call.fail(fmt::format("{}: {} is {}, which no core operator supports", call.schema(),
                                     call.arguments()[k].name, describe(rest)));
    }
    // Functions of numbers convert integers to floats.
    if (op.family == "functions" && call.good() && !ir::is_float(call.dtype(operands[0])))
      operands[0] = call.cast(operands[0], ir::DType::kF32);
    call.result(op.name.substr(5), operands, std::move(attributes));
  }
};

bool translate_as_it_is(Call& call) {
  const auto& given = call.arguments();
  const bool complex = std::any_of(given.begin(), given.end(), is_complex);
  if (const auto row = complex ? row_of(complex_table(), call) : nullptr) return row(call), true;
  if (const auto row = row_of(table(), call)) return row(call), !call.is_for_dispatcher();
  const auto backwards = derived().find(call.schema());
  if (backwards == derived().end()) return false;
  Backwards{call, *backwards->second, {}, {}}.run();
  return true;
}

/// Writes a result into a tensor that the call was given, which becomes the result.
void write_result(Call& call, size_t number, const Item& given) {
  const auto* const self = tensor_of(given);
  if (self == nullptr) return;
  const TensorRef into = *self;
  const auto* const made = tensor_of(call.results()[number]);
  if (made == nullptr && !into->state().empty()) call.add_write(into->state());
  if (made == nullptr || *made == into) return;
  if (!given.get<Complex>() != !call.results()[number].get<Complex>())
    return call.fail(
        fmt::format("{} writes {} into {}", call.schema(), describe(call.results()[number]), describe(given)));
  const std::string& stored = into->state();
  const bool may_stay = is_untrained(call.notes().stored, stored) || !ir::is_float(call.dtype(into->now()));
  if (!stored.empty() && !may_stay) {
    return call.fail(
        fmt::format("{} writes into '{}', which is trained: only the optimizer may change it", call.schema(), stored));
  }
  if (!stored.empty()) call.add_write(stored);
  into->write(call, call.cast((*made)->read(call), call.dtype(into->now())));
  call.results()[number] = given;
}

/// The overload that returns its results, by its name: `aten::max.dim` of `aten::max.dim_max`, which has an output
/// `max`.
std::string without_outputs(std::string_view schema, const std::string& op) {
  const std::string_view overload = schema.substr(schema.find('.') + 1);
  const size_t last = overload.rfind('_');
  std::vector<std::string> names = {op + ".Tensor"};
  if (last != std::string_view::npos) names.insert(names.begin(), op + "." + std::string(overload.substr(0, last)));
  const auto is_known = [](const std::string& name) {
    return table().contains(name) || derived().contains("aten::" + name);
  };
  const auto found = std::find_if(names.begin(), names.end(), is_known);
  return "aten::" + (found == names.end() ? op : *found);
}

/// Translates the overload without `out=`, and writes its results into those tensors.
bool translate_into(Call& call, const std::vector<Call::Argument>& outputs) {
  std::vector<Call::Argument> others;
  for (const Call::Argument& each : call.arguments()) {
    const auto is_same = [&](const Call::Argument& output) { return output.name == each.name; };
    if (std::none_of(outputs.begin(), outputs.end(), is_same)) others.push_back(each);
  }
  const std::string schema = call.schema(), plain = without_outputs(schema, call.op());
  call.become(std::move(others));
  call.become(plain);
  if (!translate_as_it_is(call) && !dispatch(call)) return call.become(schema), false;
  if (!call.good()) return true;
  if (call.results().size() < outputs.size()) return call.fail(schema + " writes more results than it has"), true;
  for (size_t i = 0; i < outputs.size() && call.good(); ++i) {
    // PyTorch computes no gradient of such a result.
    const auto* const made = tensor_of(call.results()[i]);
    const ValueId value = made != nullptr ? (*made)->read(call) : ValueId();
    if (call.results()[i].get<TensorRef>() != nullptr && ir::is_float(call.dtype(value)))
      call.results()[i] = Item(std::make_shared<Tensor>(call.emit("stop_gradient", {value})));
    write_result(call, i, outputs[i].item);
  }
  return true;
}

}  // namespace

bool writes(std::string_view schema) {
  const std::string_view op = schema.substr(0, schema.find('.'));
  return op.ends_with("_") && !op.ends_with("__");
}

std::vector<Call::Argument> outputs_given(const std::string& schema, std::span<const Call::Argument> arguments) {
  const size_t dot = schema.find('.');
  if (!schema.starts_with("aten::") || dot == std::string::npos) return {};
  const auto handle = c10::Dispatcher::singleton().findSchema({schema.substr(0, dot), schema.substr(dot + 1)});
  if (!handle) return {};
  std::vector<Call::Argument> found;
  for (const c10::Argument& formal : handle->schema().arguments()) {
    if (!formal.kwarg_only() || formal.alias_info() == nullptr || !formal.alias_info()->isWrite()) continue;
    const auto given = std::find_if(arguments.begin(), arguments.end(), [&](const Call::Argument& each) {
      return each.name == formal.name() && !each.item.is_none();
    });
    if (given != arguments.end()) found.push_back(*given);
  }
  return found;
}

bool has_translator(const std::string& schema) { return table().contains(schema); }

bool translate(Call& call) { return translate(call, outputs_given(call.schema(), call.arguments())); }

bool translate(Call& call, const std::vector<Call::Argument>& outputs) {
  if (!outputs.empty()) return translate_into(call, outputs);
  if (translate_as_it_is(call)) return true;
  const std::string op = call.op();
  if (!writes(op)) return dispatch(call);
  std::string plain = call.schema();
  plain.erase(plain.find(op) + op.size() - 1, 1);
  const Item given = call.item(0);
  call.become(std::move(plain));
  if (!translate_as_it_is(call) && !dispatch(call)) return false;
  if (call.good() && !call.results().empty()) write_result(call, 0, given);
  return true;
}

}  // namespace rannc::frontend::torchscript
