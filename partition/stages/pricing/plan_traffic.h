/// What a plan's stages send each other, for placement and for warm-up depths.
#pragma once

#include "partition/placement/place.h"
#include "partition/schedule/periodic.h"
#include "partition/stages/pricing/range_costs.h"
#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Bytes of a mini-batch between stages, gradients' way back included, and of each stage's all-reduce.
PlacementTraffic traffic_of(const StageProblem& problem, const RangeCosts& ranges, const StagePlan& plan);

/// Times of the judged plan's stages and of one message between neighbours, ns.
ChainTimes chain_times(const StageProblem& problem, const RangeCosts& ranges, const StagePlan& plan);

}  // namespace rannc::partition
