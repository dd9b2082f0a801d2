/// The plans of a search that are worth a simulation device by device.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "partition/stages/judge/judge.h"

namespace rannc::partition {

/// A plan and who found it.
struct Candidate {
  StagePlan plan;
  std::string from;
};

/// What a candidate is, so that the same one is judged once.
std::string identity(const StagePlan& plan);

/// Whether the plan is small enough to be simulated device by device among many.
bool may_finish(const StagePlan& plan);

/// How the best plan of each source lost against `plan`.
std::vector<RunnerUp> runners_up(const StagePlan& plan, const std::map<std::string, StagePlan>& best_of);

/// Keeps the best plan of each number of stages, micro-batch count and schedule, and what rivals hand in as it is.
class Finalists {
 public:
  /// A plan that has been judged.
  void offer(const StagePlan& plan, const std::string& from);
  /// One that is tried in any case where it comes close.
  void hand_in(const StagePlan& plan, const std::string& from) { handed_in_.push_back({plan, from}); }

  /// Finishes the most promising of them, best first, and returns those that still fit, best first; ties keep the order
  /// of judgement. Nothing where the problem is too large for it: then judgements stand as they are.
  std::vector<Candidate> finished(PlanJudge& judge) const;

 private:
  std::vector<Candidate> ranked() const;

  std::map<std::tuple<size_t, uint64_t, std::string>, Candidate> best_;
  std::vector<Candidate> handed_in_;
};

}  // namespace rannc::partition
