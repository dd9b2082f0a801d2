/// Cuts for stages whose devices are given.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "partition/stages/pricing/prices.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Whether stages have other numbers of devices.
bool other_devices(const StagePlan& a, const StagePlan& b);

/// Moves the cuts of plans so that the slowest stage is as fast as can be. Keeps references to problem and ranges.
class Rebalancer {
 public:
  Rebalancer(const StageProblem& problem, const RangeCosts& ranges) : problem_(problem), ranges_(ranges) {}

  /// The same devices, micro-batches and recompute with the cuts for which the largest of these is least: a stage's
  /// work in a mini-batch with its all-reduce, and the messages that it receives, which overlap with work; among cuts
  /// within 1 % of that, those with the least sum of squares. Two dynamic programs; memory is left to the judge. The
  /// plan as it is where a replica would have no sample, no cut is allowed, or blocks and stages are too many to be
  /// worth it.
  StagePlan balanced(const StagePlan& plan);

  /// `stages` stages with equal numbers of devices, all of them in use, the first ones with one more where need be.
  StagePlan even(uint32_t stages, uint64_t micro_batches);

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
