/// The interface of all stage planners.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

class StagePlanner {
 public:
  virtual ~StagePlanner() = default;
  virtual std::string name() const = 0;

  /// Validates the problem, searches, and verifies what was found. A problem that nobody can price is a diagnostic;
  /// one without a solution is an `Infeasible`. Same problem, same answer, on every run that is not stopped. Once
  /// `stop` is requested the search ends soon with the best plan so far; its notes say so, and its bound still holds.
  Result<StageOutcome> plan(const StageProblem& problem, std::stop_token stop = {}) const;

  /// The same for one who compares plans: without a bound, unless the search itself gives one.
  Result<StageOutcome> candidate(const StageProblem& problem, std::stop_token stop = {}) const;

 private:
  Result<StageOutcome> verified(const StageProblem& monotone, std::stop_token stop) const;
  /// A plan whose `bound_name` it leaves empty gets the bound of all plans (`bounds.h`).
  virtual StageOutcome search(const StageProblem& problem, std::stop_token stop) const = 0;
};

/// Checks a finished plan: V1 stages cover all blocks once, in order; V2 devices exist and serve one stage each;
/// V3 a replica has samples; V4 constraints hold; V5 every stage fits memory under the problem's discipline.
Result<void> verify_plan(const StageProblem& problem, const StagePlan& plan);

/// Algorithms 1 and 2 of RaNNC (III.C), corrected: only V[0,0,0] = 0, exact for max t_f + max t_b, all stage counts,
/// memory with the micro-batches in flight of the problem's discipline, uneven shares priced by the largest.
/// Objective: (MB + S - 1) * (max t_f + max t_b). Exact; positions of devices are priced where the cluster is not
/// uniform (while blocks x devices stay below 4,000; beyond, equal nodes are priced by the links inside them, and the
/// plan says so). Nodes per pipeline run over the divisors of the node count.
std::unique_ptr<StagePlanner> rannc_planner();

}  // namespace rannc::partition
