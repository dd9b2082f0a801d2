/// Bounds the step by memory, work and the path of one micro-batch together.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "partition/stages/bounds/bounds.h"
#include "partition/stages/bounds/stage_floor_entries.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// For one micro-batch count. Valid for every plan of `PlanJudge` with objective `kStepTime`, whether stages share
/// devices or not. See the start of `weighted_sums.cc`.
class WeightedSums {
 public:
  WeightedSums(const StageProblem& problem, uint64_t micro_batches);

  /// Returns a step that no plan beats, in ns; 0 if the problem is too large. Tries some 250 pairs of weights, and
  /// takes a step of the budget for each choice and pair. Once the budget is spent, it returns the best bound so far.
  Bound least_step(BoundBudget& budget) const;

 private:
  /// What a block takes on some number of replicas, and with a part of what its backward pass reads.
  struct Choice {
    double work = 0;   ///< ns of a step, over all its devices
    double path = 0;   ///< ns of one micro-batch, both ways; 0 beside the longest path
    double bytes = 0;  ///< over all its devices, at the turn of a micro-batch
  };
  /// A bound, with the sums of the choices that it is made of.
  struct Weighed {
    double step = 0, path = 0, bytes = 0;
  };

  void add_choices(uint32_t block, bool on_path, bool held);
  void add_choice(uint32_t block, uint64_t replicas, bool on_path, bool held);
  /// The block's forward time on the first kind of device at the largest size. `StageHulls` takes shares of it.
  double forward_in_hulls(uint32_t block) const;
  /// The least ratio of a block's forward time for `share` samples to its `forward_in_hulls`.
  double least_ratio(uint64_t share);
  /// `path`: its weight, of 1; work has the rest. `bytes`: in ns per byte.
  Weighed weigh(double path, double bytes) const;
  /// Returns the best bound with this weight of the path.
  double best_step(double path, BoundBudget& budget) const;

  const StageProblem& problem_;
  uint64_t count_, samples_;                  ///< micro-batches, and samples of the smallest
  double devices_, memory_ = 0, rate_ = 0;    ///< of the cluster; bytes of all devices; of the fastest memory
  std::map<uint64_t, double> ratios_;         ///< of `least_ratio`
  std::vector<std::vector<Choice>> choices_;  ///< by block; empty if there are too many
  uint64_t all_choices_ = 0;
};

}  // namespace rannc::partition
