/// Defines the interface of all stage planners.
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

  /// Validates the problem, searches, and verifies the plan. A problem that cannot be priced is a diagnostic; one
  /// without a solution is an `Infeasible`. Deterministic unless stopped. After a request of `stop` the search ends
  /// soon with the best plan so far; the notes state this, and the bound remains valid.
  Result<StageOutcome> plan(const StageProblem& problem, std::stop_token stop = {}) const;

  /// The same for comparing plans: computes no bound unless the search itself provides one.
  Result<StageOutcome> candidate(const StageProblem& problem, std::stop_token stop = {}) const;

 private:
  Result<StageOutcome> verified(const StageProblem& monotone, std::stop_token stop) const;
  /// A plan with an empty `bound_name` gets the bound over all plans (`bounds.h`).
  virtual StageOutcome search(const StageProblem& problem, std::stop_token stop) const = 0;
  /// Largest number of stages on a device that the planner tries if the problem specifies none.
  virtual uint32_t most_stages_per_device(const StageProblem&) const { return 1; }
};

/// Verifies a finished plan: V1 stages cover all blocks once, in order; V2 devices exist, and stages share all of
/// their devices or none; V3
/// each replica has samples; V4 constraints hold; V5 every stage fits memory under the problem's discipline.
Result<void> verify_plan(const StageProblem& problem, const StagePlan& plan);

/// Algorithms 1 and 2 of RaNNC (III.C), corrected: only V[0,0,0] = 0, exact for max t_f + max t_b, all stage counts,
/// memory with the micro-batches in flight of the problem's discipline, uneven shares priced by the largest. Objective:
/// (MB + S - 1) * (max t_f + max t_b). Exact. On non-uniform clusters device positions are priced while blocks *
/// devices stay below 4,000. Beyond that, equal nodes are priced by the links inside them, and the plan's notes state
/// this. The number of nodes per pipeline is a divisor of the node count.
std::unique_ptr<StagePlanner> rannc_planner();

}  // namespace rannc::partition
