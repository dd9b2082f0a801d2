/// Generates the neighbours of a plan for local search.
#pragma once

#include <functional>
#include <vector>

#include "partition/stages/problem/places.h"
#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Whether the plan has the stage counts, cuts and replica counts that the user demands.
bool keeps_constraints(const StageProblem& problem, const StagePlan& plan);

/// Puts the places of the plan on consecutive devices from device 0 on, with the given numbers of devices.
void lay_consecutively(StagePlan& plan, const StagePlaces& places, const std::vector<size_t>& sizes);

/// Calls `visit` for every neighbour that satisfies the constraints, in a fixed order, until it returns true (accept).
/// Neighbours: a cut moved by 1, 2, 4 …; a device moved between places, added or dropped; stages merged or split;
/// recompute toggled; the micro-batch count changed to the next candidates. Stages that share devices change their
/// place instead, and merge only with a neighbour on the same devices. The schedule is unchanged and may not suit the
/// stages of a neighbour (`suits`).
bool any_move(const StageProblem& problem, const std::vector<uint64_t>& micro_batches, const StagePlan& plan,
              const std::function<bool(StagePlan)>& visit);

/// Likewise for the smallest changes of stages alone: a cut moved by one block, recompute of a stage toggled, a device
/// moved from one place to another (to a neighbouring one if there are many).
bool any_small_move(const StageProblem& problem, const StagePlan& plan, const std::function<bool(StagePlan)>& visit);

}  // namespace rannc::partition
