#include "tools/foreign_calls.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "codegen/aten_call.h"
#include "ir/foreign.h"

namespace rannc::tools {

namespace {

Result<void> check(const ir::Graph& graph, TaskId task) {
  const auto inputs = ir::type_list(graph, graph.inputs(task)), outputs = ir::type_list(graph, graph.outputs(task));
  RANNC_ASSIGN(const auto lowering, ir::lowering({graph.op(task), inputs, outputs, graph.attributes(task)}));
  return codegen::check_call(lowering.calls.front());
}

}  // namespace

Result<std::string> foreign_calls(const ir::Graph& graph) {
  std::map<std::string, std::pair<size_t, bool>> counts;  // and whether types are guessed
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
  if (missing) return std::move(*missing).note("--load-library FILE loads a library that brings its own operators");
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
