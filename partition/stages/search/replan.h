/// Plans again after devices were lost, from the last plan.
#pragma once

#include <stop_token>
#include <vector>

#include "partition/stages/search/auto.h"
#include "partition/stages/search/rebalance.h"

namespace rannc::partition {

/// A plan of the problem's blocks on other devices, some of which may be lost.
struct LastPlan {
  StagePlan plan;
  std::vector<DeviceId> now;  ///< by device of `plan`: its id in the problem's cluster; not valid: it is lost
};

/// Returns plans of the problem that differ little from the last plan. They need not fit memory. Each stage keeps its
/// devices that are left. A stage without any takes unused ones, else one of the stage with most. If there are too few
/// for all stages, the plan has fewer, in the same layout and with new cuts. Also returns each plan with devices and
/// cuts rebalanced.
std::vector<StagePlan> plans_of_rest(const StageProblem& problem, Rebalancer& rebalancer, const LastPlan& last);

/// Searches by planner `auto` from `plans_of_rest`, then from other structures, with budgets of milliseconds. Never
/// worse than `plans_of_rest`. The bound holds for all plans; it is weaker than that of a full search
/// where that takes longer. `options` supply the allowed schedules. `Infeasible` if no tried plan fits, although
/// another one may. Errors: as for `StagePlanner::plan`.
Result<StageOutcome> replan(const StageProblem& problem, const LastPlan& last, const AutoOptions& options,
                            std::stop_token stop = {});

}  // namespace rannc::partition
