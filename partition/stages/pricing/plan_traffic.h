/// Computes the traffic between a plan's stages, for placement and for warm-up depths.
#pragma once

#include "partition/placement/place.h"
#include "partition/schedule/periodic.h"
#include "partition/stages/pricing/range_costs.h"
#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Bytes between stages in a mini-batch, including returned gradients, and bytes of the all-reduce of each stage.
PlacementTraffic traffic_of(const StageProblem& problem, const RangeCosts& ranges, const StagePlan& plan);

/// Times of the judged plan's stages, and of one message between neighbours, ns.
ChainTimes chain_times(const StageProblem& problem, const RangeCosts& ranges, const StagePlan& plan);

}  // namespace rannc::partition
