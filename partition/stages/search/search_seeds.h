/// Where a search of stages starts: answers of the exact methods, laid out on devices.
#pragma once

#include <functional>
#include <vector>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"
#include "partition/stages/search/rebalance.h"

namespace rannc::partition {

/// Calls `visit(plan)` for each micro-batch count with stages that share the devices equally, then for each with the
/// stages that the step's lower bound is made of and with the exact DP's answers for some stage counts, with messages
/// and without (the simulation overlaps them with computation).
/// Schedules are not chosen. Ends where `visit` says false, or at a budget of the DP's steps.
void each_seed(const StageProblem& problem, Rebalancer& rebalancer, const std::vector<uint64_t>& micro_batches,
               const std::function<bool(const StagePlan&)>& visit);

}  // namespace rannc::partition
