/// Replaces a plan's summed task times by measured times of its stages.
#pragma once

#include <functional>
#include <string>

#include "partition/model/plan_model.h"

namespace rannc::tools {

/// Who hears what measuring does; either may be empty.
struct RefineProgress {
  std::function<void(const std::string&)> step;    ///< `measuring the stages side by side: step 2`
  std::function<void(const std::string&)> remark;  ///< why nothing was measured
};

/// Generates the stages into a scratch folder, trains a few steps of the whole plan on made-up samples on this machine,
/// all workers side by side, optimizers included, puts the times into the plan and simulates it again: sums of tasks
/// measured apart miss what caches, allocation and neighbours do to a sequence. The plan's lower bound, which holds at
/// the planner's prices alone, is forgotten. Leaves the plan alone where the cluster is not this machine, or where its
/// workers together need more memory than is free; then it returns false.
Result<bool> refine_prediction(partition::PlannedModel& planned, const partition::PlanOptions& options,
                               const RefineProgress& progress = {});

}  // namespace rannc::tools
