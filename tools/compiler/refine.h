/// Replaces the predicted times of a plan's stages by measured ones.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "codegen/bundle_writer.h"
#include "partition/model/plan_model.h"

namespace rannc::tools {

/// Callbacks for progress; either may be empty.
struct RefineProgress {
  std::function<void(const std::string&)> step;    ///< `measuring the stages side by side: step 2`
  std::function<void(const std::string&)> remark;  ///< why nothing was measured
};

/// Generates the stages into a scratch folder, trains a few steps of the whole plan with synthetic samples on this
/// machine, stores the measured times in the plan and simulates it again. All workers run side by side, optimizers
/// included. Sums of separately measured tasks would miss the effects of caches, allocation and neighbouring tasks. The
/// step at the planner's prices, for which alone the plan's lower bound holds, becomes `searched_ns`. Returns false and
/// leaves the plan unchanged if the cluster is not this machine's processor or if its workers need more memory than is
/// free.
/// `native`: measures compiled stages.
Result<bool> refine_prediction(partition::PlannedModel& planned, const partition::PlanOptions& options,
                               std::optional<codegen::NativeForm> native, const RefineProgress& progress = {});

}  // namespace rannc::tools
