/// Decides which stages of a plan shard their optimizer state.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "partition/model/plan_options.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Bytes by kind of device.
using KindMemory = std::vector<uint64_t>;

/// Returns the memory of each kind of device, limited by the constraints.
KindMemory memory_of_kinds(const PlanOptions& options);

/// Marks the stages that the options shard: all with replicas, those of the given plan, or none.
void mark_sharded(const PlanOptions& options, StagePlan& stages);

/// Removes the mark of each stage whose devices have room for its whole state, first stages first. `plan` is the
/// finished plan of `stages`. Returns whether a mark has changed; the plan must then be finished again.
bool keep_whole_where_possible(const PlanOptions& options, const ir::Plan& plan, StagePlan& stages);

/// Names the stages that are sharded because of the memory.
std::string sharding_remark(const StagePlan& stages);

}  // namespace rannc::partition
