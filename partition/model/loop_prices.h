/// Prices the tasks that one compiled loop computes.
#pragma once

#include "partition/model/model_costs.h"
#include "partition/model/task_memory.h"

namespace rannc::partition {

/// Changes the prices of tasks that run in loops (`ir/program/program_loop.h`), with the model as one stage. A loop
/// starts once and passes values from task to task in registers. Its tasks therefore share one launch, and the rest of
/// their times shrinks by the bytes that the loop reads and writes at `samples` samples, as part of those that its
/// tasks would read and write one by one. Backward times change only if all backward tasks of the task are in loops.
///
/// No effect unless `memory` is that of programs with loops. `costs` are those of the model's tasks on the kinds of
/// `cluster`.
void price_loops(const TaskMemory& memory, const Cluster& cluster, uint64_t samples, ModelCosts& costs);

}  // namespace rannc::partition
