/// Defines the simulator's input for one plan that is being judged.
#pragma once

#include <optional>
#include <vector>

#include "partition/schedule/simulate.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/pricing/stage_bytes.h"
#include "partition/stages/pricing/stage_ways.h"
#include "partition/stages/problem/places.h"

namespace rannc::partition {

/// Returns a route from each value to each stage that reads it, in the order of values, as in a finished plan.
std::vector<ir::RouteShape> value_routes(const StageProblem& problem, const StagePlan& plan,
                                         const std::vector<uint32_t>& micro_batches);

/// One direction of a route, per micro-batch.
double one_way_ns(const ir::RouteShape& route, const LinkCost& link, uint64_t samples);

struct PlanJudge::Run {
  StagePlaces places;
  ir::PipelineShape shape;  ///< each place is one device
  ScheduleCosts costs;
  std::vector<StageWay> ways;        ///< [from place * places + to place]; within a place: free
  std::vector<ir::RouteShape> sums;  ///< all values between two stages combined, with and without gradient; for bounds
  std::vector<StageBytes> bytes;     ///< of one replica, by stage
  std::vector<double> memory;        ///< of the stage's smallest device, by stage
  std::vector<double> steps;         ///< optimizer step by stage, ns
  std::vector<std::vector<SumCost>> reductions;  ///< by stage; empty without replicas
  /// Work of a stage besides its micro-batches and its all-reduce, ns: P, E and the optimizer.
  double once(size_t stage) const { return costs.begin[stage] + costs.gradients[stage] + steps[stage]; }
  uint64_t largest = 0;              ///< samples of the largest micro-batch
  bool peaks_known = false;          ///< the schedule's rule determined the peaks of the stages
  std::optional<ir::Schedule> rows;  ///< of all micro-batches, if they had to determine the peaks

  std::vector<DeviceId> used;  ///< laid out by device: the cluster's devices

  StageWay& way(uint32_t from_stage, uint32_t to_stage) {
    return ways[places.of_stage[from_stage] * places.count() + places.of_stage[to_stage]];
  }
  const StageWay& way(uint32_t from_stage, uint32_t to_stage) const {
    return ways[places.of_stage[from_stage] * places.count() + places.of_stage[to_stage]];
  }
};

}  // namespace rannc::partition
