/// Chooses cuts for stages with given devices.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "partition/schedule/stage_layout.h"
#include "partition/stages/pricing/prices.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Whether the two plans have different numbers of devices in their stages.
bool other_devices(const StagePlan& a, const StagePlan& b);

/// Moves the cuts of plans to minimise the time of the slowest stage. Keeps references to problem and ranges.
class Rebalancer {
 public:
  Rebalancer(const StageProblem& problem, const RangeCosts& ranges) : problem_(problem), ranges_(ranges) {}

  /// Returns the plan with the same devices, micro-batches and recompute, and with the cuts that minimise the largest
  /// of these times: a stage's work in a mini-batch with its all-reduce, and the messages that it receives, which
  /// overlap with work. Among cuts within 1 % of the minimum it takes the least sum of squares. Runs two dynamic
  /// programs. Ignores memory, which the judge checks. Returns the plan unchanged if a replica would have no sample, no
  /// cut is allowed, or there are too many blocks and stages.
  StagePlan balanced(const StagePlan& plan);

  /// Returns a plan with `stages` stages in the layout, whose ranks have the given numbers of consecutive devices.
  StagePlan arranged(StageLayout layout, uint32_t stages, const std::vector<uint32_t>& replicas,
                     uint64_t micro_batches);

  const RangeCosts& ranges() const { return ranges_; }

 private:
  struct Place;

  const StagePrices& prices(uint64_t micro_batches);
  Place place_of(const StagePlan& plan, size_t s);
  double work(const Place& place, uint32_t first, uint32_t end) const;
  double messages(const Place& place, uint32_t first, uint32_t end) const;
  std::vector<uint32_t> extend(const Place& place, uint32_t s, uint32_t left, double limit,
                               std::vector<double>& least) const;

  const StageProblem& problem_;
  const RangeCosts& ranges_;
  std::map<uint64_t, StagePrices> prices_;
};

}  // namespace rannc::partition
