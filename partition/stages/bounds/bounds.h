/// Computes lower bounds on the objective of all plans of a problem.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "partition/stages/problem/problem.h"

namespace rannc::partition {

class RangeCosts;
struct StageOutline;

struct Bound {
  double value = 0;
  std::string argument;  ///< `work over all devices`, `stages of a pipeline` …
};

/// Effort to spend on raising a bound.
struct BoundEffort {
  double enough = 0;             ///< stop once the bound reaches this value; 0: raise it as far as possible
  uint64_t steps = 400'000'000;  ///< in total, a few ns each; makes the result independent of timing
  std::stop_token stop = {};     ///< once requested, returns the bound proved so far
  /// Whether plans may have several stages on a device. The argument about stages spends devices of its own for each
  /// stage, so it is invalid then: only sums count (work, heaviest block, longest path, memory; for the step also the
  /// three of `weighted_sums.h` together), and on up to 32 devices the sizes and starts of places.
  bool shared_devices = false;
};

/// Returns a lower bound on the problem's objective over all plans of `PlanJudge`: every cut, replica count,
/// micro-batch count, recompute choice, placement and synchronous schedule. Plans with several stages on a device are
/// covered only if `BoundEffort::shared_devices` is set. A relative 1e-9 is subtracted against
/// rounding. The bound is valid, though lower, if the search ends early.
///
/// The strongest argument relaxes a plan to its stages. Stage s cannot start before one micro-batch has passed the
/// stages before it. It processes all micro-batches on the best devices and links of the cluster, and repeats the
/// forward passes that it cannot hold in memory or waits for room (`bounds/stage_floor.cc`). Then it either reduces the
/// gradients that are final last or waits for the last gradient to pass the stages before it. The least T for which
/// such stages exist on the given number of devices is found exactly, by bisection over T and dynamic programming over
/// (blocks, devices).
Bound lower_bound(const StageProblem& problem, const RangeCosts& ranges, const BoundEffort& effort = {});

/// Returns starting points for a search: stages that meet the strongest argument's bound for `micro_batches`, and a few
/// that are somewhat slower but shorter. Due to rounding, replica counts may exceed the cluster's devices. Empty if the
/// problem is too large for that argument.
std::vector<std::vector<StageOutline>> promising_stages(const StageProblem& problem, const RangeCosts& ranges,
                                                        uint64_t micro_batches);

}  // namespace rannc::partition
