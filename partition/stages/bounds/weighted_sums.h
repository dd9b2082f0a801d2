/// Bounds the step by memory, work and the way of one micro-batch together.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "partition/stages/bounds/bounds.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// For one micro-batch count. Valid for every plan of `PlanJudge` with objective `kStepTime`, whether stages share
/// devices or not. See the start of `weighted_sums.cc`.
class WeightedSums {
 public:
  WeightedSums(const StageProblem& problem, uint64_t micro_batches);

  /// Returns a step that no plan beats, in ns; 0 if the problem is too large. O(blocks * shares).
  Bound least_step() const;

 private:
  /// What a block takes on some number of replicas, and with a part of what its backward pass reads.
  struct Choice {
    double work = 0;   ///< ns of a step, over all its devices
    double way = 0;    ///< ns of one micro-batch, both ways; 0 beside the longest way
    double bytes = 0;  ///< over all its devices, at the turn of a micro-batch
  };
  struct Weights {
    double way = 0, bytes = 0;  ///< of 1, and in ns per byte
  };

  void add_choices(uint32_t block, bool on_way, bool held);
  void add_choice(uint32_t block, uint64_t replicas, bool on_way, bool held);
  /// Of the first kind at the largest size, of which `StageHulls` takes shares.
  double forward_in_hulls(uint32_t block) const;
  /// Least ratio of a block's forward time for `share` samples to that.
  double least_ratio(uint64_t share);
  /// Returns the bound with these weights. Adds the bytes of the choices that it is made of to `bytes`.
  double with(const Weights& weights, double* bytes, double* way = nullptr) const;
  /// Returns the best bound with this weight of the way.
  double best_bytes(double way) const;

  const StageProblem& problem_;
  uint64_t count_, samples_;                  ///< micro-batches, and samples of the smallest
  double devices_, memory_ = 0, rate_ = 0;    ///< of the cluster; bytes of all devices; of the fastest memory
  std::map<uint64_t, double> ratios_;         ///< of `least_ratio`
  std::vector<std::vector<Choice>> choices_;  ///< by block
};

}  // namespace rannc::partition
