/// Enumerates every plan of a small problem: cuts, replicas on consecutive devices, recompute, micro-batch counts.
#pragma once

#include <functional>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"
#include "partition/stages/search/arrangements.h"

namespace rannc::partition {

/// Number of plans that `every_plan` would visit, at most `limit`.
uint64_t count_plans(const StageProblem& problem, const Arrangement& arrangement, uint64_t limit);

/// Visits all plans of an arrangement in a fixed order. The visitor chooses the schedule.
void every_plan(const StageProblem& problem, const Arrangement& arrangement,
                const std::function<void(const StagePlan&)>& visit);

}  // namespace rannc::partition
