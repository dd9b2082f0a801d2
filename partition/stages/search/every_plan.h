/// Every plan of a small problem: cuts, replicas on consecutive devices, recompute choices, micro-batch counts.
#pragma once

#include <functional>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// How many plans `every_plan` would visit, at most `limit`.
uint64_t count_plans(const StageProblem& problem, uint64_t limit);

/// Visits them in a fixed order; the schedule is left to the visitor.
void every_plan(const StageProblem& problem, const std::function<void(const StagePlan&)>& visit);

}  // namespace rannc::partition
