#include "passes/simplify/drop_unread.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"

namespace rannc::passes {

namespace {

bool makes_statistics(const ir::Graph& graph, TaskId task) {
  const ir::OpInfo& op = graph.op(task);
  const bool runs_on =
      std::any_of(op.results.begin(), op.results.end(), [](const auto& result) { return result.runs_on.has_value(); });
  return runs_on && op.depends_on_training(graph.attributes(task));
}

/// Tasks without float results usually compute sizes.
bool makes_floats(const ir::Graph& graph, TaskId task) {
  const auto results = graph.outputs(task);
  return std::any_of(results.begin(), results.end(),
                     [&](ValueId value) { return ir::is_float(graph.type(value).dtype); });
}

std::vector<bool> needed_tasks(const ir::Graph& graph) {
  std::vector<bool> values(graph.value_count()), tasks(graph.task_count());
  ir::for_each_result(graph, [&](ValueId value) { values[value.index()] = true; });
  for (uint32_t i = graph.task_count(); i-- > 0;) {
    const TaskId task(i);
    const auto results = graph.outputs(task);
    tasks[i] = makes_statistics(graph, task) ||
               std::any_of(results.begin(), results.end(), [&](ValueId value) { return values[value.index()]; });
    if (!tasks[i]) continue;
    for (const ValueId operand : graph.inputs(task)) {
      if (operand.valid()) values[operand.index()] = true;
    }
  }
  return tasks;
}

}  // namespace

Result<Outcome> DropUnread::run(ir::Graph& graph, PassContext& context) const {
  const std::vector<bool> needed = needed_tasks(graph);
  if (std::find(needed.begin(), needed.end(), false) == needed.end()) return Outcome{};
  size_t of_floats = 0;
  ir::Rewriter rewriter(graph);
  for (const TaskId task : graph.tasks()) {
    if (needed[task.index()]) {
      rewriter.copy(task);
    } else if (makes_floats(graph, task)) {
      ++of_floats;
    }
  }
  graph = std::move(rewriter).finish();
  if (of_floats == 0) return Outcome{true};
  Note& remark = context.remarks.emplace_back();
  remark.message = fmt::format("dropped {} tasks that no output needs", of_floats);
  return Outcome{true};
}

}  // namespace rannc::passes
