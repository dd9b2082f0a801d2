#include "passes/manager.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/stopwatch.h"
#include "ir/text/text.h"
#include "ir/verify.h"

namespace rannc::passes {

namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the graph's text below the command that runs passes 0…last on it.
std::string reproducer(const ir::Graph& graph, const std::vector<std::unique_ptr<Pass>>& passes, size_t last) {
  std::string text = ir::print(graph);
  std::string command = "// rannc-opt '--pass=";
  for (size_t i = 0; i <= last; ++i) command += (i == 0 ? "" : ",") + passes[i]->spelling();
  text.insert(text.find('\n') + 1, command + "' FILE\n");
  return text;
}

// A pass that throws has a defect: the failure is kept, so that a reproducer can be written.
Result<Outcome> guarded(const Pass& pass, ir::Graph& graph, PassContext& context, bool& internal) {
  try {
    return pass.run(graph, context);
  } catch (const InternalError& defect) {
    internal = true;
    return error(defect.what());
  }
}

// Facts of a graph that was changed hold only where the changing pass wrote them.
void drop_facts(PassContext& context, const PassContext& before) {
  if (context.constant && context.constant == before.constant) context.constant.reset();
  if (context.atoms && context.atoms == before.atoms) context.atoms.reset();
}

std::string shown(const ir::Graph& graph, const PassContext& context) {
  std::string text = ir::print(graph);
  if (context.atoms) text += ir::print(*context.atoms, graph);
  return text;
}

}  // namespace

std::string RunReport::time_table() const {
  std::string table;
  for (const PassTime& time : times) {
    fmt::format_to(std::back_inserter(table), "{:>10.3f} ms  {}  {}\n", static_cast<double>(time.ns) * 1e-6,
                   time.changed ? "changed  " : "unchanged", time.pass);
  }
  return table;
}

std::vector<std::string> PassManager::names() const {
  std::vector<std::string> names;
  for (const auto& pass : passes_) names.emplace_back(pass->name());
  return names;
}

RunReport PassManager::run(ir::Graph& graph, PassContext& context, const ManagerOptions& options,
                           const Show& show) const {
  RunReport report;
  for (const std::string& name : options.print_after) {
    if (!contains(names(), name)) {
      report.failure = error("there is no pass " + name + " to print after");
      return report;
    }
  }
  if (options.verify) {
    if (auto holds = ir::as_result(ir::verify(graph)); !holds.ok()) {
      report.failure = holds.diagnostic();
      return report;
    }
  }
  std::optional<ir::Graph> original;
  if (options.reproducer) original = graph.clone();
  for (size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = *passes_[i];
    const PassContext before = context;
    const int64_t tasks = graph.task_count();
    const Stopwatch watch;
    auto outcome = guarded(pass, graph, context, report.internal);
    const int64_t elapsed = watch.nanoseconds();
    if (outcome.ok()) {
      report.times.push_back({std::string(pass.name()), elapsed, outcome->changed, graph.task_count() - tasks});
      if (outcome->changed) drop_facts(context, before);
      if (outcome->changed && options.verify) {
        auto holds = ir::as_result(ir::verify(graph));
        report.internal = !holds.ok();
        if (!holds.ok()) outcome = holds.diagnostic();
      }
    }
    if (!outcome.ok()) {
      report.failure = Diagnostic(outcome.diagnostic()).note(fmt::format("in pass {}", pass.spelling()));
      if (original) report.reproducer = reproducer(*original, passes_, i);
      return report;
    }
    const bool wanted = (options.print_changed && outcome->changed) || contains(options.print_after, pass.name());
    if (wanted && show) show(pass.name(), shown(graph, context));
  }
  return report;
}

}  // namespace rannc::passes
