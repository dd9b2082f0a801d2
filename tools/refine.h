/// Replaces a plan's summed task times by measured times of its stages.
#pragma once

#include "partition/model/plan_model.h"

namespace rannc::tools {

/// Generates the stages into a scratch folder, runs each on made-up samples on this machine, alone and on one thread,
/// puts the times into the plan and simulates it again. Sums of tasks measured apart miss what caches and allocation do
/// to a sequence. Only for clusters of this machine's own devices.
Result<void> refine_prediction(partition::PlannedModel& planned, const partition::PlanOptions& options);

}  // namespace rannc::tools
