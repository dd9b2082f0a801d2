/// Improves the stages of plans under found rows.
#pragma once

#include <cstdint>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "partition/stages/judge/finalists.h"
#include "partition/stages/judge/judge.h"

namespace rannc::partition {

/// Budget of the moves.
struct FoundMovesOptions {
  std::vector<std::string> schedules;  ///< named ones, under which a neighbour must fit before its rows are searched
  uint64_t actions = 0;                ///< of the searches for rows (`PlanJudge::row_actions`)
  uint64_t judged = 0;                 ///< of the judge (`PlanJudge::spent`), whose actions take longer
};

/// Local search over cuts, replicas and recompute in which each neighbour (`any_small_move`) is evaluated with rows of
/// its own: a named schedule ranks the neighbours, `PlanJudge::find_rows` decides. First improvement. A neighbour whose
/// bound does not beat the best plan costs no search for rows. Deterministic: the budget counts work.
class FoundMoves {
 public:
  /// Keeps references to all but `options`.
  FoundMoves(const StageProblem& problem, PlanJudge& judge, FoundMovesOptions options, std::stop_token stop)
      : problem_(problem), judge_(judge), options_(std::move(options)), stop_(std::move(stop)) {}

  /// Moves from the stages of `start`. Replaces `best` by each better plan.
  void climb(const StagePlan& start, Candidate& best);

 private:
  bool can_afford() const {
    return judge_.row_actions() < most_actions_ && judge_.spent() < most_judged_ && !stop_.stop_requested();
  }
  std::vector<StagePlan> neighbours(const StagePlan& plan, double beat);
  bool improve(const StagePlan& neighbour, Candidate& best);

  const StageProblem& problem_;
  PlanJudge& judge_;
  FoundMovesOptions options_;
  std::stop_token stop_;
  uint64_t most_actions_ = judge_.row_actions() + options_.actions, most_judged_ = judge_.spent() + options_.judged;
  std::set<std::string> tried_;  ///< structures
};

}  // namespace rannc::partition
