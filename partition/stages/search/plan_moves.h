/// Generates the neighbours of a plan for local search.
#pragma once

#include <functional>
#include <vector>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Whether the plan has the stage counts, cuts and replica counts that the user demands.
bool keeps_constraints(const StageProblem& problem, const StagePlan& plan);

/// Places the stages on consecutive devices from device 0 on. Keeps replica counts.
void lay_consecutively(StagePlan& plan);

/// Calls `visit` for every neighbour that satisfies the constraints, in a fixed order, until it returns true (accept).
/// Neighbours: a cut moved by 1, 2, 4 …; a device moved between stages, added or dropped; stages merged or split;
/// recompute toggled; the micro-batch count changed to the next candidates. The schedule is unchanged.
bool any_move(const StageProblem& problem, const std::vector<uint64_t>& micro_batches, const StagePlan& plan,
              const std::function<bool(StagePlan)>& visit);

}  // namespace rannc::partition
