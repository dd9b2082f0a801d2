/// Selects the plans of a search that are simulated device by device.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "partition/stages/judge/judge.h"

namespace rannc::partition {

/// Devices times micro-batches of all plans that a search simulates device by device, unless it is told otherwise.
inline constexpr uint64_t kDeviceSlots = 200'000;

/// A plan and its source.
struct Candidate {
  StagePlan plan;
  std::string from;
};

/// Returns a key that is equal for equal candidates, so that each is judged once.
std::string identity(const StagePlan& plan);

/// Returns a key that is equal for plans that differ in their schedules alone.
std::string structure(const StagePlan& plan);

/// Whether the plan is small enough for device-by-device simulation among many others, which have `slots` together.
bool is_small(const StagePlan& plan, uint64_t slots = kDeviceSlots);

/// Compares the best plan of each source with `plan`.
std::vector<RunnerUp> runners_up(const StagePlan& plan, const std::map<std::string, StagePlan>& best_of);

/// Keeps the best plan of each combination of stage count, micro-batch count and schedule, and all plans of rivals.
class Finalists {
 public:
  /// Adds a plan that has been judged.
  void offer(const StagePlan& plan, const std::string& from);
  /// Adds a plan that is always tried if its objective is close to the best.
  void hand_in(const StagePlan& plan, const std::string& from) { handed_in_.push_back({plan, from}); }

  /// Simulates the most promising plans device by device, best first. Returns those that still fit, best first; ties
  /// keep the order of judgement. Empty if the problem is too large for `slots`: then the judgements stand.
  std::vector<Candidate> finished(PlanJudge& judge, uint64_t slots) const;

 private:
  std::vector<Candidate> ranked() const;

  std::map<std::tuple<size_t, uint64_t, std::string>, Candidate> best_;
  std::vector<Candidate> handed_in_;
};

}  // namespace rannc::partition
