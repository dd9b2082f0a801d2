#include "passes/simplify/remove_dead.h"

#include <fmt/format.h>

#include "ir/graph/rewriter.h"

namespace rannc::passes {

namespace {
uint32_t parameters(const ir::Graph& graph) {
  uint32_t count = 0;
  for (const ValueId id : graph.values()) count += graph.value(id).kind == ir::ValueKind::kParameter ? 1 : 0;
  return count;
}
}  // namespace

Result<Outcome> RemoveDead::run(ir::Graph& graph, PassContext& context) const {
  const uint32_t tasks = graph.task_count(), trained = parameters(graph);
  if (!ir::remove_dead(graph)) return Outcome{};
  const uint32_t dropped = tasks - graph.task_count(), parameters_dropped = trained - parameters(graph);
  if (dropped + parameters_dropped == 0) return Outcome{true};  // constants
  Note& remark = context.remarks.emplace_back();
  remark.message = fmt::format("dropped {} tasks and {} parameters that no result needs", dropped, parameters_dropped);
  return Outcome{true};
}

}  // namespace rannc::passes
