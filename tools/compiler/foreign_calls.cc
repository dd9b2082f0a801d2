#include "tools/compiler/foreign_calls.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/match/match.h"
#include "ir/op/foreign.h"
#include "ir/plan/plan.h"
#include "runtime/aten/aten_call.h"

namespace rannc::tools {

namespace {

Result<void> check(const ir::Graph& graph, TaskId task) {
  const auto inputs = ir::type_list(graph, graph.inputs(task)), outputs = ir::type_list(graph, graph.outputs(task));
  RANNC_ASSIGN(const auto lowering, ir::lowering({graph.op(task), inputs, outputs, graph.attributes(task)}));
  return runtime::check_call(lowering.calls.front());
}

/// Returns, by value, whether a gradient flows to it.
std::vector<bool> with_gradient(const ir::Graph& graph) {
  static const ir::Ops kEnds = "stop_gradient";
  const std::vector<bool> needs = ir::needs_gradient(graph);
  std::vector<bool> reaches(graph.value_count(), false);
  for (const ir::LossTerm& term : graph.losses()) reaches[term.numerator.index()] = needs[term.numerator.index()];
  for (uint32_t i = graph.task_count(); i-- > 0;) {
    const auto outputs = graph.outputs(TaskId(i));
    if (kEnds.contains(graph.op(TaskId(i)))) continue;
    if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId v) { return reaches[v.index()]; })) continue;
    for (const ValueId input : graph.inputs(TaskId(i))) {
      if (input.valid() && needs[input.index()]) reaches[input.index()] = true;
    }
  }
  return reaches;
}

/// Whether an operator has a gradient formula, or a kernel composed of operators that have one.
bool has_gradient(const std::string& schema) {
  const size_t dot = schema.find('.');
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {schema.substr(0, dot), dot == std::string::npos ? "" : schema.substr(dot + 1)});
  using Key = c10::DispatchKey;
  for (const Key key : {Key::Autograd, Key::AutogradCPU, Key::CompositeImplicitAutograd}) {
    if (handle && handle->hasKernelForDispatchKey(key)) return true;
  }
  return false;
}

Result<void> check_gradients(const ir::Graph& graph) {
  if (graph.losses().empty()) return {};
  const std::vector<bool> reaches = with_gradient(graph);
  for (const TaskId task : graph.tasks()) {
    if (!ir::is_foreign(graph.op(task))) continue;
    const auto outputs = graph.outputs(task);
    if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId v) { return reaches[v.index()]; })) continue;
    RANNC_ASSIGN(const ir::ForeignCall call, ir::foreign_call(graph.attributes(task)));
    if (has_gradient(call.schema)) continue;
    const std::string value(graph.value(outputs[0]).name);
    return error(graph.location(task),
                 fmt::format("{} has no gradient, so the parameters before it would not be trained", call.schema))
        .note(fmt::format("register one for its Autograd key, or stop the gradient there: --stop-gradient {}", value));
  }
  return {};
}

}  // namespace

Result<std::string> foreign_calls(const ir::Graph& graph) {
  std::map<std::string, std::pair<size_t, bool>> counts;  // with the number of calls and whether types are guessed
  std::optional<Diagnostic> missing;
  std::set<std::string> named;
  for (const TaskId task : graph.tasks()) {
    if (!ir::is_foreign(graph.op(task))) continue;
    auto& [count, guessed] = counts[graph.op(task).name];
    ++count;
    RANNC_ASSIGN(const ir::ForeignCall call, ir::foreign_call(graph.attributes(task)));
    guessed = guessed || call.guessed;
    const auto checked = check(graph, task);
    if (checked.ok() || !named.insert(call.schema).second) continue;
    if (missing) {
      missing->notes.push_back({graph.location(task), checked.diagnostic().message});
    } else {
      missing = error(graph.location(task), checked.diagnostic().message);
    }
  }
  if (missing) return std::move(*missing).note("use --load-library FILE to load a library of custom operators");
  RANNC_TRY(check_gradients(graph));
  std::string text;
  for (const auto& [name, found] : counts) {
    text += text.empty() ? "calls    " : ", ";
    text += name;
    if (found.first > 1) text += fmt::format(" {} times", found.first);
    if (found.second) text += " (sizes guessed: every run asserts them)";
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace rannc::tools
