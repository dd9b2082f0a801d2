#include "frontend/torchscript/internal/calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

constexpr std::string_view kLost = "the result of ";

/// Whether something is, or has in it, what an operator without a translation would have made.
bool is_lost(const Item& item) {
  if (const auto* undecided = item.get<Undecided>()) return undecided->what.starts_with(kLost);
  const Sequence* const sequence = item.sequence();
  return sequence && std::any_of(sequence->elements.begin(), sequence->elements.end(), is_lost);
}

std::vector<Item> lost(const std::string& schema, size_t results) {
  return std::vector<Item>(results, Undecided{std::string(kLost) + schema});
}

/// What an item is where gradients end: the tensors in it anew. What is an argument too was written in place.
Item stopped(Call& call, const Item& item) {
  if (const Sequence* const sequence = item.sequence()) {
    std::vector<Item> elements;
    for (const Item& each : sequence->elements) elements.push_back(stopped(call, each));
    return sequence->is_tuple ? tuple_of(std::move(elements)) : list_of(std::move(elements));
  }
  const auto* const tensor = item.get<TensorRef>();
  if (tensor == nullptr || !ir::is_float(call.dtype((*tensor)->now()))) return item;
  const ValueId end = call.emit("stop_gradient", {(*tensor)->read(call)});
  const bool is_written = std::any_of(call.arguments().begin(), call.arguments().end(), [&](const auto& argument) {
    const auto* const given = argument.item.template get<TensorRef>();
    return given != nullptr && *given == *tensor;
  });
  if (!is_written) return (*tensor)->is_view() ? Tensor::unsure(end, *tensor) : std::make_shared<Tensor>(end);
  (*tensor)->write(call, end);
  return item;
}

/// Whether no gradient goes through a value to what it was made from.
bool has_no_gradient(const ir::Graph& graph, ValueId value) {
  const TaskId maker = graph.producer(value);
  return !maker.valid() || &graph.op(maker) == &ir::core("stop_gradient") || !ir::is_float(graph.type(value).dtype);
}

}  // namespace

std::vector<Item> Calls::lose(const std::string& schema, const Location& where, std::string why, size_t results) {
  ++unknown_.try_emplace(schema, Unknown{where, std::move(why)}).first->second.calls;
  return lost(schema, results);
}

Result<std::vector<Item>> Calls::run(ir::Graph& graph, const Location& where, const std::string& schema,
                                     std::vector<Call::Argument> arguments, const std::vector<std::string>& names,
                                     const std::string& module) {
  // What an unknown operator would have made is unknown as well.
  const bool is_of_lost = std::any_of(arguments.begin(), arguments.end(),
                                      [](const Call::Argument& argument) { return is_lost(argument.item); });
  if (is_of_lost) return lost(schema, names.size());
  const bool is_in_place = no_grad_ > 0 && writes(schema.substr(0, schema.find('.'))) && !arguments.empty() &&
                           arguments[0].item.get<TensorRef>();
  if (is_in_place && !has_no_gradient(graph, (*arguments[0].item.get<TensorRef>())->now())) {
    return error(where, fmt::format("{} writes without gradients into a tensor that has one: nothing says what its "
                                    "gradient is then; write into a copy",
                                    schema));
  }
  Call call(graph, where, schema, names.empty() ? "nothing" : names[0], std::move(arguments), notes_);
  if (!translate(call)) return lose(schema, where, call.failure()->message, names.size());
  if (call.failure() && !unknown_.empty()) return lost(schema, names.size());
  if (no_grad_ > 0) {
    for (Item& result : call.results()) result = stopped(call, result);
  }
  if (call.failure()) return *call.failure();
  if (!module.empty()) notes_.training.modules.emplace(where.node, module);
  return std::move(call.results());
}

std::optional<Diagnostic> Calls::unknown(const std::string& file) const {
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
