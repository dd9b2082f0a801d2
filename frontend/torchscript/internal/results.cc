#include "frontend/torchscript/internal/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/torchscript/internal/call.h"
#include "ir/rewriter.h"

namespace rannc::frontend::torchscript {

namespace {

/// The graph with other names for some of its activations.
ir::Graph renamed(const ir::Graph& graph, const std::map<ValueId, std::string>& names) {
  ir::Rewriter to(graph);
  for (const TaskId task : graph.tasks()) {
    const auto made = graph.outputs(task);
    const bool is_named = std::any_of(made.begin(), made.end(), [&](ValueId each) { return names.contains(each); });
    if (!is_named) {
      to.copy(task);
      continue;
    }
    std::vector<ValueId> operands;
    for (const ValueId operand : graph.inputs(task)) operands.push_back(to.map(operand));
    std::vector<std::string> wanted;
    for (const ValueId each : made)
      wanted.push_back(names.contains(each) ? names.at(each) : std::string(graph.value(each).name));
    const TaskId copy =
        to.graph().add_task(graph.op(task), operands, graph.attributes(task), wanted, graph.location(task));
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId named = to.graph().outputs(copy)[i];
      to.graph().set_type(named, graph.type(made[i]));
      to.replace(made[i], named);
    }
  }
  return std::move(to).finish();
}

struct Output {
  std::string name;
  TensorRef tensor;
};

/// Tensors of what the program gives, in order.
Result<void> collect(const Item& item, const std::string& name, const std::string& file, std::vector<Output>& into) {
  if (const auto* tensor = item.get<TensorRef>()) {
    into.push_back({name, *tensor});
  } else if (const Sequence* const sequence = item.sequence()) {
    for (size_t i = 0; i < sequence->elements.size(); ++i)
      RANNC_TRY(collect(sequence->elements[i], fmt::format("{}_{}", name.empty() ? "output" : name, i), file, into));
  } else if (const Dictionary* const dictionary = item.dictionary()) {
    for (const auto& [key, value] : dictionary->entries) {
      const auto* const text = key.get<std::string>();
      RANNC_TRY(collect(value, text ? *text : fmt::format("output_{}", into.size()), file, into));
    }
  } else if (!item.is_none()) {
    return error(Location{file}, fmt::format("forward gives {}; expected tensors", describe(item)));
  }
  return {};
}

}  // namespace

Result<void> add_outputs(ir::Graph& graph, ImportNotes& notes, const Item& made, const std::vector<std::string>& names,
                         const std::string& file) {
  std::vector<Output> outputs;
  RANNC_TRY(collect(made, {}, file, outputs));
  if (outputs.empty()) return error(Location{file}, "forward gives no tensor");
  if (names.size() > outputs.size())
    return error(Location{file}, fmt::format("{} names are given for {} output{}", names.size(), outputs.size(),
                                             outputs.size() == 1 ? "" : "s"));
  std::map<ValueId, std::string> named;
  std::vector<ValueId> values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = i < names.size() ? names[i] : outputs[i].name.empty() ? "output" : outputs[i].name;
    Call call(graph, {file, 0, 0, name}, "output", name, {}, notes);
    const ValueId last = outputs[i].tensor->read(call);
    const bool is_free = call.good() && graph.producer(last).valid() && named.emplace(last, name).second;
    if (!is_free) call.result("identity", {last});
    if (call.failure()) return *call.failure();
    values.push_back(is_free ? last : (*call.results()[0].get<TensorRef>())->now());
  }
  graph.set_outputs(std::move(values));
  graph = renamed(graph, named);
  return {};
}

}  // namespace rannc::frontend::torchscript
