#include "partition/stages/pricing/plan_traffic.h"

#include <algorithm>

namespace rannc::partition {

PlacementTraffic traffic_of(const StageProblem& problem, const RangeCosts& ranges, const StagePlan& plan) {
  PlacementTraffic traffic;
  std::vector<uint32_t> stage_of(problem.blocks);
  for (uint32_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    for (uint32_t b = stage.first; b < stage.end; ++b) stage_of[b] = s;
    traffic.gradient_bytes.push_back(ranges.gradients(stage.first, stage.end));
  }
  for (const BlockValue& value : problem.values) {
    uint32_t before = stage_of[value.producer];
    const double bytes = value.bytes * static_cast<double>(plan.micro_batches) +
                         value.bytes_per_sample * static_cast<double>(problem.mini_batch);
    for (const uint32_t reader : value.readers) {
      if (stage_of[reader] == before) continue;
      before = stage_of[reader];
      traffic.edges.push_back({stage_of[value.producer], before, bytes * (value.gradient ? 2 : 1)});
    }
  }
  return traffic;
}

ChainTimes chain_times(const StageProblem& problem, const RangeCosts& ranges, const StagePlan& plan) {
  ChainTimes times;
  const uint64_t largest = (problem.mini_batch + plan.micro_batches - 1) / plan.micro_batches;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& from = plan.stages[s];
    times.forward.push_back(from.forward_ns);
    times.backward.push_back(from.backward_ns);
    if (s + 1 == plan.stages.size()) break;
    const PlannedStage& to = plan.stages[s + 1];
    if (to.devices == from.devices) {
      times.hop.push_back(0);
      continue;
    }
    const uint64_t replicas = std::min(from.devices.size(), to.devices.size());
    const double share = static_cast<double>((largest + replicas - 1) / replicas);
    times.hop.push_back(problem.cluster.link(from.devices.back(), to.devices.front())
                            .transfer_ns(ranges.received(to.first, to.end).at(share)));
  }
  return times;
}

}  // namespace rannc::partition
