#include "frontend/torchscript/internal/calls.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

constexpr std::string_view kLost = "the result of ";

std::vector<Item> lost(const std::string& schema, size_t results) {
  return std::vector<Item>(results, Undecided{std::string(kLost) + schema});
}

/// Whether an operator only moves items into or out of lists and dictionaries, without reading them.
bool only_holds(const std::string& schema) {
  static const std::set<std::string_view> kOperators = {
      "aten::append",    "aten::extend",     "aten::insert",     "aten::_set_item",      "aten::__getitem__",
      "aten::pop",       "aten::add.t",      "aten::list",       "aten::copy.t",         "aten::slice.t",
      "aten::len",       "aten::keys",       "aten::values",     "aten::items",          "aten::__is__",
      "aten::__isnot__", "prim::TupleIndex", "prim::TupleSlice", "prim::unchecked_cast", "aten::_unwrap_optional"};
  return kOperators.contains(schema) || kOperators.contains(std::string_view(schema).substr(0, schema.find('.')));
}

/// Whether the operator writes to its arguments, by its name or schema.
bool is_writing(const std::string& schema) {
  if (writes(schema)) return true;
  const size_t dot = schema.find('.', schema.find("::"));
  const c10::OperatorName name(schema.substr(0, dot), dot == std::string::npos ? "" : schema.substr(dot + 1));
  const auto found = c10::Dispatcher::singleton().findSchema(name);
  return found && found->schema().is_mutable();
}

using Tensors = std::set<TensorRef>;

void collect(const Item& item, Tensors& into) {
  if (const auto* const tensor = tensor_of(item)) into.insert(*tensor);
  if (const Sequence* const sequence = item.sequence()) {
    for (const Item& each : sequence->elements) collect(each, into);
  }
  if (const Dictionary* const dictionary = item.dictionary()) {
    for (const auto& [key, value] : dictionary->entries) collect(value, into);
  }
}

/// Whether no gradient can flow through a value to a parameter. Inspects at most `looks` values.
bool has_no_gradient(const ir::Graph& graph, const ImportNotes& notes, ValueId value, int& looks) {
  if (--looks < 0) return false;
  if (!ir::is_float(graph.type(value).dtype) || graph.kind(value) == ir::ValueKind::kInput) return true;
  const TaskId maker = graph.producer(value);
  if (!maker.valid()) return is_untrained(notes.stored, std::string(graph.value(value).name));
  if (&graph.op(maker) == &ir::core("stop_gradient")) return true;
  const auto operands = graph.inputs(maker);
  return std::all_of(operands.begin(), operands.end(), [&](ValueId operand) {
    return !operand.valid() || has_no_gradient(graph, notes, operand, looks);
  });
}

bool has_no_gradient(const ir::Graph& graph, const ImportNotes& notes, ValueId value) {
  int looks = 64;
  return has_no_gradient(graph, notes, value, looks);
}

/// Stops gradients of a result in tensors that the call created or wrote to. Forwarded arguments stay as they are.
Item stopped(Call& call, const Item& item, const Tensors& given, bool writes) {
  if (const Sequence* const sequence = item.sequence()) {
    Tensors within;
    collect(item, within);
    if (std::includes(given.begin(), given.end(), within.begin(), within.end())) return item;  // keeps list identity
    std::vector<Item> elements;
    for (const Item& each : sequence->elements) elements.push_back(stopped(call, each, given, writes));
    return sequence->is_tuple ? tuple_of(std::move(elements)) : list_of(std::move(elements));
  }
  const auto* const tensor = tensor_of(item);
  const bool is_given = tensor != nullptr && given.contains(*tensor);
  if (tensor == nullptr || (is_given && !writes) || !ir::is_float(call.dtype((*tensor)->now()))) return item;
  const ValueId made = (*tensor)->read(call);
  if (call.good() && has_no_gradient(call.graph(), call.notes(), made)) return item;
  const ValueId end = call.emit("stop_gradient", {made});
  if (is_given) return (*tensor)->write(call, end), item;
  TensorRef made_end = (*tensor)->is_view() ? Tensor::unsure(end, *tensor) : std::make_shared<Tensor>(end);
  return item.get<Complex>() ? Item(Complex{std::move(made_end)}) : Item(std::move(made_end));
}

}  // namespace

bool is_lost(const Item& item) {
  if (const auto* undecided = item.get<Undecided>()) return undecided->what.starts_with(kLost);
  const Sequence* const sequence = item.sequence();
  return sequence && std::any_of(sequence->elements.begin(), sequence->elements.end(), is_lost);
}

// Marks everything that an untranslated operator may have written as unknown.
void Calls::note_writes(const std::string& schema, const std::vector<Call::Argument>& arguments) {
  if (!is_writing(schema)) return;
  Tensors written;
  for (const Call::Argument& each : arguments) collect(each.item, written);
  for (const TensorRef& each : written) {
    const bool is_own = each->lose(fmt::format("it reads what {} wrote, which is not known", schema));
    lost_state_ = lost_state_ || !is_own || !each->state().empty();
  }
}

std::vector<Item> Calls::lose(const std::string& schema, const Location& where, std::string why, size_t results) {
  ++unknown_.try_emplace(schema, Unknown{where, std::move(why)}).first->second.calls;
  return lost(schema, results);
}

Result<std::vector<Item>> Calls::run(ir::Graph& graph, const Location& where, const std::string& schema,
                                     std::vector<Call::Argument> arguments, const std::vector<std::string>& names,
                                     const std::string& module) {
  // Calls with results of untranslated operators have unknown results too.
  const bool is_of_lost = std::any_of(arguments.begin(), arguments.end(),
                                      [](const Call::Argument& argument) { return is_lost(argument.item); });
  if (is_of_lost && !only_holds(schema)) {
    note_writes(schema, arguments);
    return lost(schema, names.size());
  }
  const bool in_place = writes(schema) && !arguments.empty() && tensor_of(arguments[0].item);
  const std::vector<Call::Argument> outputs = outputs_given(schema, arguments);  // written without gradients anywhere
  const auto has_gradient = [&](const Call::Argument& each) {
    const auto* const tensor = tensor_of(each.item);
    return tensor != nullptr && !has_no_gradient(graph, notes_, (*tensor)->now());
  };
  if ((no_grad_ > 0 && in_place && has_gradient(arguments[0])) ||
      std::any_of(outputs.begin(), outputs.end(), has_gradient)) {
    return error(where, fmt::format("{} writes without gradients into a tensor that has a gradient, which would be "
                                    "undefined; write into a copy",
                                    schema));
  }
  Tensors given;
  if (no_grad_ > 0) {
    for (const Call::Argument& each : arguments) collect(each.item, given);
  }
  Call call(graph, where, schema, names.empty() ? "nothing" : names[0], std::move(arguments), notes_);
  const bool known = translate(call, outputs);
  if (known && no_grad_ > 0) {
    for (Item& result : call.results()) result = stopped(call, result, given, in_place);
  }
  if (call.failure()) {
    note_writes(schema, call.arguments());
    if (!known) return lose(schema, where, call.failure()->message, names.size());
    if (!failed_ && unknown_.empty()) failed_ = call.failure();
    if (names.empty() || only_holds(schema)) return *call.failure();  // it raises or changes a list
    return lost(schema, names.size());
  }
  writes_.insert(writes_.end(), call.buffer_writes().begin(), call.buffer_writes().end());
  if (!module.empty()) notes_.training.modules.emplace(where.node, module);
  return std::move(call.results());
}

std::optional<Diagnostic> Calls::fault(const std::string& file) const {
  if (failed_) return failed_;
  if (unknown_.empty()) return std::nullopt;
  std::vector<std::string> names;
  Diagnostic found = error(Location{file}, "");
  for (const auto& [schema, met] : unknown_) {
    names.push_back(fmt::format("{} ({})", schema, met.calls));
    found.notes.push_back({met.where, met.why});
  }
  found.message = fmt::format("operators without a translation: {}", fmt::join(names, ", "));
  return found;
}

}  // namespace rannc::frontend::torchscript
