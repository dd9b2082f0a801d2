/// Defines the simulator's input for one plan that is being judged.
#pragma once

#include <vector>

#include "partition/schedule/simulate.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/pricing/stage_ways.h"

namespace rannc::partition {

/// Returns a route from each value to each stage that reads it, in the order of values, as in a finished plan.
std::vector<ir::RouteShape> value_routes(const StageProblem& problem, const StagePlan& plan,
                                         const std::vector<uint32_t>& micro_batches);

struct PlanJudge::Run {
  ir::PipelineShape shape;
  ScheduleCosts costs;
  std::vector<StageWay> ways;        ///< [from stage * stages + to stage]
  std::vector<ir::RouteShape> sums;  ///< all values between two stages combined, with and without gradient; for bounds
  std::vector<double> steps;         ///< optimizer step by stage, ns
  uint64_t largest = 0;              ///< samples of the largest micro-batch
};

}  // namespace rannc::partition
