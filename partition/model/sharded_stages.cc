#include "partition/model/sharded_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "partition/model/given_plan.h"

namespace rannc::partition {

KindMemory memory_of_kinds(const PlanOptions& options) {
  KindMemory memory;
  for (const DeviceKind& kind : options.cluster.kinds)
    memory.push_back(std::min(kind.memory_bytes, options.constraints.memory_bytes.value_or(kind.memory_bytes)));
  return memory;
}

void mark_sharded(const PlanOptions& options, StagePlan& stages) {
  for (size_t s = 0; s < stages.stages.size(); ++s) {
    PlannedStage& stage = stages.stages[s];
    const bool given = options.given && options.given->stages[s].sharded;
    const bool wanted = options.shard_optimizer == ShardOptimizer::kAlways ||
                        (options.shard_optimizer == ShardOptimizer::kWhereNeeded && given);
    stage.sharded = wanted && options.training && stage.devices.size() > 1;
  }
}

namespace {

/// Memory of each of the plan's devices.
std::vector<int64_t> limits_of(const PlanOptions& options, const ir::Plan& plan) {
  const KindMemory memory = memory_of_kinds(options);
  std::vector<int64_t> limits;
  for (const ir::PlanDevice& device : plan.devices) {
    const auto& kinds = options.cluster.kinds;
    const auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& each) { return each.name == device.kind; });
    RANNC_CHECK(kind != kinds.end()) << device.kind;
    limits.push_back(static_cast<int64_t>(memory[static_cast<size_t>(kind - kinds.begin())]));
  }
  return limits;
}

}  // namespace

bool keep_whole_where_possible(const PlanOptions& options, const ir::Plan& plan, StagePlan& stages) {
  ir::Plan whole = plan.clone();
  for (ir::Stage& stage : whole.stages) stage.sharded = false;
  const ir::PipelineShape sharded_shape = ir::pipeline_shape(plan), whole_shape = ir::pipeline_shape(whole);
  const std::vector<int64_t> limits = limits_of(options, plan);
  std::vector<int64_t> room;
  for (size_t d = 0; d < limits.size(); ++d)
    room.push_back(limits[d] - static_cast<int64_t>(plan.predictions[d].peak_bytes));
  bool changed = false;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (!plan.stages[s].sharded) continue;
    const ir::StageShape &before = sharded_shape.stages[s], &after = whole_shape.stages[s];
    const int64_t more =
        after.fixed_bytes - before.fixed_bytes + std::max<int64_t>(0, after.step_bytes - before.step_bytes);
    const auto& homes = plan.stages[s].devices;
    if (std::any_of(homes.begin(), homes.end(), [&](DeviceId home) { return room[home.index()] < more; })) continue;
    for (const DeviceId home : homes) room[home.index()] -= more;
    stages.stages[s].sharded = false;
    changed = true;
  }
  return changed;
}

std::string sharding_remark(const StagePlan& stages) {
  std::vector<size_t> sharded;
  for (size_t s = 0; s < stages.stages.size(); ++s) {
    if (stages.stages[s].sharded) sharded.push_back(s);
  }
  return fmt::format("the replicas of stage{} {} divide the optimizer state: no plan fits the memory without",
                     sharded.size() == 1 ? "" : "s", fmt::join(sharded, ", "));
}

}  // namespace rannc::partition
