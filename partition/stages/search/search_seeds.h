/// Generates starting plans for a stage search from exact methods.
#pragma once

#include <functional>
#include <vector>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"
#include "partition/stages/search/arrangements.h"
#include "partition/stages/search/rebalance.h"

namespace rannc::partition {

/// Calls `visit(plan)` for plans whose ranks share the devices equally, for each arrangement of `all` and micro-batch
/// count. Schedules are not chosen. Returns false if `visit` did, which ends the search.
bool each_even_seed(const StageProblem& problem, Rebalancer& rebalancer, const std::vector<Arrangement>& all,
                    const std::vector<uint64_t>& micro_batches, const std::function<bool(const StagePlan&)>& visit);

/// Likewise. Then, if stages may have devices of their own, for each micro-batch count, the stages behind the step's
/// lower bound and the exact DP's solutions for some stage counts, with and without messages (the simulation overlaps
/// them with computation). Ends when `visit` returns false or the budget of DP steps is spent.
void each_seed(const StageProblem& problem, Rebalancer& rebalancer, const std::vector<Arrangement>& all,
               const std::vector<uint64_t>& micro_batches, const std::function<bool(const StagePlan&)>& visit);

}  // namespace rannc::partition
