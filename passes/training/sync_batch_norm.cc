#include "passes/training/sync_batch_norm.h"

#include <fmt/format.h>

#include "ir/op/op.h"
#include "ir/state/statistics.h"

namespace rannc::passes {

namespace {

Result<void> refuse_in_bodies(const ir::Attributes& attributes, TaskId owner) {
  for (const auto& [name, value] : attributes) {
    const auto* const body = std::get_if<ir::Body>(&value);
    if (body == nullptr) continue;
    const ir::Graph& inside = body->graph();
    for (const TaskId task : inside.tasks()) {
      if (ir::synchronised(inside, task)) {
        return error(inside.location(task),
                     fmt::format("sync-batch-norm: {} is in `{}` of task #{}, which replicas may execute differently; "
                                 "only one outside of branches and loops can be synchronised",
                                 inside.op(task).name, name, owner.index()));
      }
      RANNC_TRY(refuse_in_bodies(inside.attributes(task), owner));
    }
  }
  return {};
}

}  // namespace

Result<Outcome> SyncBatchNorm::run(ir::Graph& graph, PassContext& context) const {
  Outcome outcome;
  bool found = false;
  for (const TaskId task : graph.tasks()) {
    RANNC_TRY(refuse_in_bodies(graph.attributes(task), task));
    const std::optional<bool> already = ir::synchronised(graph, task);
    found = found || already.has_value();
    if (already.value_or(true)) continue;
    ir::Attributes attributes = graph.attributes(task);
    attributes.set(ir::kSynchronised, true);
    graph.set_attributes(task, std::move(attributes));
    outcome.changed = true;
  }
  if (!found) {
    context.warnings.push_back(
        {{}, "sync-batch-norm: no batch normalisation is in training mode, so there is nothing to synchronise"});
  }
  return outcome;
}

}  // namespace rannc::passes
