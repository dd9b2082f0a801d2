/// What no plan of a problem can beat.
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

/// How far a bound is to be raised.
struct BoundEffort {
  double enough = 0;             ///< a bound of this value proves all that is asked; 0: as high as can be
  uint64_t steps = 400'000'000;  ///< of a few ns, all together; the answer depends on nothing else
  std::stop_token stop = {};     ///< once requested, the bound is what is proved by then
};

/// A lower bound on the problem's objective over all plans of `PlanJudge`: every cut, replica count, micro-batch count,
/// recompute choice, placement and synchronous schedule. Bounds are below by a relative 1e-9 against rounding. It holds
/// however soon the search for it ends; then it is lower.
///
/// The strongest argument relaxes a plan to its stages: stage s cannot start before one micro-batch has passed the
/// stages before it, works through all micro-batches on the best devices and links of the cluster, repeats the forward
/// passes that it cannot hold in memory or waits for room (`internal/stage_floor.cc`), and then either reduces its
/// gradients or waits for the last gradient to pass the stages before it. The least T for which stages on the given
/// number of devices exist is found by dynamic programming over (blocks, devices), exactly, by bisection over T.
Bound lower_bound(const StageProblem& problem, const RangeCosts& ranges, const BoundEffort& effort = {});

/// Stages that meet the strongest argument's bound for `micro_batches`, and a few that are somewhat slower but shorter:
/// where to begin a search. Replica counts may exceed what the cluster has by rounding. Empty where the problem is too
/// large for that argument.
std::vector<std::vector<StageOutline>> promising_stages(const StageProblem& problem, const RangeCosts& ranges,
                                                        uint64_t micro_batches);

}  // namespace rannc::partition
