/// Improves plans move by move.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "partition/stages/search/plan_contest.h"
#include "partition/stages/search/plan_trials.h"
#include "partition/stages/search/rebalance.h"

namespace rannc::partition {

constexpr const char* kOwnSearch = "own search";  ///< source of plans that no rival found
constexpr double kEstimateSlack = 1.02;           ///< multiple of the best that an estimate may hide

/// Whether the schedule is another schedule with deeper warm-ups.
bool deepens_warm_up(const std::string& schedule);

/// First improvement over all moves of a plan. Records judged plans in the contest. Greedy: ends at a plan that no
/// single move improves.
class LocalSearch {
 public:
  /// `schedules`: those that plans may have. All references must outlive the search.
  LocalSearch(const StageProblem& problem, const std::vector<std::string>& schedules,
              const std::vector<uint64_t>& micro_batches, PlanTrials& trials, PlanContest& contest)
      : problem_(problem),
        schedules_(schedules),
        micro_batches_(micro_batches),
        trials_(trials),
        contest_(contest),
        rebalancer_(problem, trials.ranges()) {}

  Rebalancer& rebalancer() { return rebalancer_; }

  /// Takes first improvements until there is none or the share of the budget is spent.
  void ascend(StagePlan& current);
  /// Tries warm-up depths by latency and memory, and uniformly deeper ones.
  void warm(StagePlan& plan);
  /// Fully simulates an estimated plan if it may be the best.
  void confirm(StagePlan plan);
  /// Makes one random move of any kind.
  void step_aside(StagePlan& current, std::mt19937_64& random);
  /// Moves `steps` times at random, then searches from there. Returns false if the budget is spent. Needs a schedule
  /// that is not another one with deeper warm-ups.
  bool search_beside(StagePlan current, uint32_t steps, std::mt19937_64& random);

 private:
  /// Whether `next` beats `current` under its schedule or another. If so, replaces it.
  bool improves(StagePlan next, StagePlan& current);
  /// Records a measured plan. An estimated plan counts once it has been confirmed.
  void note(const StagePlan& plan);

  const StageProblem& problem_;
  const std::vector<std::string>& schedules_;
  const std::vector<uint64_t>& micro_batches_;
  PlanTrials& trials_;
  PlanContest& contest_;
  Rebalancer rebalancer_;
};

}  // namespace rannc::partition
