/// Judges the plans of a search within its budget.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "partition/stages/judge/judge.h"
#include "partition/stages/search/plan_contest.h"

namespace rannc::partition {

/// How plans are judged.
struct TrialRules {
  bool everything = false;  ///< every plan of the problem is tried: none is estimated
  bool by_device = false;   ///< every plan is simulated device by device, unless it cannot be the best
};

/// A judge with a budget of simulated actions. The cost of a simulation is known only after its steady state is found,
/// so the last one may exceed the budget.
class PlanTrials {
 public:
  PlanTrials(const StageProblem& problem, const PlanContest& contest, const TrialRules& rules, uint64_t budget,
             std::stop_token stop)
      : problem_(problem), contest_(contest), rules_(rules), stop_(std::move(stop)), judge_(problem), left_(budget) {}

  PlanJudge& judge() { return judge_; }
  const RangeCosts& ranges() const { return judge_.ranges(); }

  /// Whether the search uses estimates for such plans and fully simulates only its results.
  bool estimates(const StagePlan& plan) const;

  /// Replaces the plan by the judged or estimated one. Returns false if it does not fit or cannot beat `beat`.
  bool measured(StagePlan& plan, double beat = kInfinity);
  /// Likewise, never by an estimate.
  bool judged(StagePlan& plan, double beat = kInfinity) { return by_stage(plan, beat) && by_device(plan, beat); }
  /// Likewise, stage by stage.
  bool by_stage(StagePlan& plan, double beat = kInfinity);
  /// Likewise without a plan to beat; remembers the reason of a refusal.
  bool first_look(StagePlan& plan);
  /// Likewise, device by device if the rules require it, and never a plan that the best so far beats.
  bool by_device(StagePlan& plan, double beat = kInfinity);

  /// Returns the last reason that `first_look` or `by_device` found; empty before.
  const std::string& last_refusal() const { return last_refusal_; }

  bool interrupted() const { return stop_.stop_requested(); }
  /// Whether the budget is spent.
  bool spent() const { return left_ == 0; }
  /// Limits what is spent until `end_share` to an equal part for each of `parts`.
  void begin_share(size_t parts);
  void end_share() {
    floor_ = 0;
    share_spent_ = false;
  }
  /// Whether the share may be spent further. Without a share: the budget.
  bool can_afford();
  bool share_spent() const { return share_spent_; }

 private:
  static constexpr uint64_t kLong = 192;  ///< micro-batches from which plans are estimated first

  /// Settles the budget and replaces the plan, unless it was refused.
  bool take(StagePlan& plan, JudgedPlan judged);
  /// Deducts from the budget what has been simulated since the last call.
  void settle();

  const StageProblem& problem_;
  const PlanContest& contest_;
  TrialRules rules_;
  std::stop_token stop_;
  PlanJudge judge_;
  uint64_t left_;
  uint64_t settled_ = 0;  ///< part of what the judge has spent
  uint64_t floor_ = 0;    ///< budget that the present share must leave
  bool share_spent_ = false;
  std::string last_refusal_;
};

}  // namespace rannc::partition
