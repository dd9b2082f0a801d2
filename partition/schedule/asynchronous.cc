/// Builds schedules that never drain the pipeline.
#include "partition/schedule/asynchronous.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/schedule/lower_schedule.h"
#include "partition/schedule/make_schedule.h"

namespace rannc::partition {

Result<ir::Schedule> asynchronous_schedule(const ir::PipelineShape& shape, uint32_t steps_every) {
  if (steps_every == 0) return error("an asynchronous schedule needs a positive number of micro-batches per step");
  if (steps_every > 1 && steps_every < shape.stages.size()) {
    return error(
        fmt::format("two weight versions suffice only if a step takes at least as many micro-batches as there are "
                    "stages: {} < {}",
                    steps_every, shape.stages.size()));
  }
  RANNC_ASSIGN(const ir::Schedule compute, make_schedule(shape, {.name = "1f1b"}));
  RANNC_ASSIGN(ir::Schedule schedule, ir::lower_schedule(shape, compute));
  schedule.name = steps_every == 1 ? "async-1f1b" : "async-2bw";
  schedule.changes_numbers = true;
  for (auto& row : schedule.rows) {
    std::vector<ir::Action> stepped;
    uint32_t backward = 0;
    StageId due;  // steps once the gradients are on their way
    const auto step = [&] {
      if (due.valid()) stepped.push_back(ir::stage_action(ir::ActionKind::kStep, due));
      due = {};
    };
    for (const ir::Action& action : row) {
      if (ir::is_update(action.kind) || ir::is_collective(action.kind)) continue;
      if (ir::is_compute(action.kind)) step();
      stepped.push_back(action);
      if (action.kind == ir::ActionKind::kBackward && ++backward % steps_every == 0) due = action.stage;
    }
    step();
    row = std::move(stepped);
  }
  return schedule;
}

std::vector<uint32_t> weight_versions(const ir::PipelineShape& shape, uint32_t steps_every) {
  const auto p = static_cast<uint32_t>(shape.stages.size());
  std::vector<uint32_t> versions;
  for (uint32_t s = 0; s < p; ++s) versions.push_back(steps_every == 1 ? p - s : 2);
  return versions;
}

}  // namespace rannc::partition
