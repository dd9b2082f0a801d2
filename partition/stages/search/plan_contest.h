/// Keeps the best plans of a search.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "partition/stages/judge/finalists.h"

namespace rannc::partition {

/// Records judged plans with their sources: the best, the best of each source, and the starts of the local search.
class PlanContest {
 public:
  /// `by_device`: plans are judged device by device already, so that there are no finalists.
  explicit PlanContest(bool by_device) : by_device_(by_device) {}

  const std::optional<Candidate>& best() const { return best_; }
  /// Objective of the best plan; infinite without one.
  double least() const { return best_ ? best_->plan.objective : kInfinity; }

  /// Records a judged plan. Returns true if it is the best so far.
  bool offer(const StagePlan& plan, const std::string& from);
  /// Records a plan only as a finalist.
  void offer_finalist(const StagePlan& plan, const std::string& from) { finalists_.offer(plan, from); }
  /// Records a finalist that is always tried if it is close to the best.
  void hand_in(const StagePlan& plan, const std::string& from) { finalists_.hand_in(plan, from); }
  /// Records the plan as one of its source and as a start.
  void keep_runner_up(const StagePlan& plan, const std::string& from);
  /// Records a start: the best plan of each number of stages, micro-batches and places.
  void keep_start(const StagePlan& plan);
  /// Replaces the best plan and keeps its source.
  void replace_best(const StagePlan& plan) { best_->plan = plan; }
  void replace_best(Candidate candidate) { best_ = std::move(candidate); }

  /// Returns the best starts, best first.
  std::vector<StagePlan> starts(size_t most) const;
  /// Chooses the best finalist in the device-by-device simulation of `slots` devices times micro-batches, and judges
  /// the best of each source likewise.
  void choose_by_device(PlanJudge& judge, uint64_t slots);
  /// Returns the best plans by device of different structures, best first, each under its best schedule.
  const std::vector<Candidate>& leaders() const { return leaders_; }
  /// Returns the best leaders and starts of other structures than `plan`, best first.
  std::vector<StagePlan> finalists_beside(const StagePlan& plan) const;
  /// Compares the best plan of each source with `plan`.
  std::vector<RunnerUp> runners_up_of(const StagePlan& plan) const { return runners_up(plan, best_of_); }
  bool has_plan_of(const std::string& source) const { return best_of_.contains(source); }

 private:
  void keep_leader(const Candidate& candidate);

  bool by_device_;
  std::optional<Candidate> best_;
  Finalists finalists_;
  std::vector<Candidate> leaders_;
  std::map<std::tuple<size_t, uint64_t, uint32_t>, StagePlan> starts_;  ///< by stages, micro-batches and places
  std::map<std::string, StagePlan> best_of_;                            ///< by source
};

}  // namespace rannc::partition
