/// Exhaustive search over cuts, replicas, recompute choices and micro-batch counts, priced from the definitions.
///
/// Shares no code with the planners: every sum is taken over blocks and values anew.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition::testing {

struct OracleStage {
  uint32_t first = 0, end = 0;
  uint32_t from = 0, to = 0;  ///< devices of one pipeline
  bool recompute = false;
  double forward = 0, backward = 0;
};

/// Calls `visit(stages, micro_batches, copies)` for every plan that meets memory and constraints: pipelines of n nodes,
/// copied N / n times where all nodes are alike.
using OracleVisit = std::function<void(const std::vector<OracleStage>&, uint64_t, uint32_t)>;
void for_each_plan(const StageProblem& problem, const OracleVisit& visit);

/// The same as plans without a schedule, whatever they hold in memory: that is the business of whoever judges them.
void for_each_roomy_plan(const StageProblem& problem, const std::function<void(StagePlan)>& visit);

/// Least (MB + S - 1) * (max forward + max backward) over all plans.
std::optional<double> least_fill_drain(const StageProblem& problem);

}  // namespace rannc::partition::testing
