/// Schedules without a flush, for comparison: their weights change between micro-batches, so their numbers differ.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"

namespace rannc::partition {

/// 1F1B over the whole stream of micro-batches, with an optimizer step behind every `steps_every`-th backward pass of
/// each stage: 1 is PipeDream's schedule with weight stashing, the number of micro-batches of a mini-batch (at least
/// the number of stages) is PipeDream-2BW (arXiv 2006.09503). Lowered, marked as changing the numbers; reductions
/// between replicas are left out, their time belongs into the step's. One stage per device.
Result<ir::Schedule> asynchronous_schedule(const ir::PipelineShape& shape, uint32_t steps_every);

/// Copies of its weights that each stage holds: as many as it has micro-batches in flight with stashing, two with 2BW.
std::vector<uint32_t> weight_versions(const ir::PipelineShape& shape, uint32_t steps_every);

}  // namespace rannc::partition
