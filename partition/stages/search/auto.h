/// The planner that lets all others compete, and searches on its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// Those of `schedules_of_auto` that do not split the backward pass.
std::vector<std::string> default_schedules();

struct AutoOptions {
  /// Whether `rannc`, `gpipe`, `dapple` and `pipedream` hand in candidates; false: own search alone.
  enum class Rivals : uint8_t { kInvited, kExcluded } rivals = Rivals::kInvited;
  /// Plans of the problem that are candidates as well. `kGiven`: the search climbs from these and the rivals' alone.
  std::vector<StagePlan> starts;
  enum class Seeds : uint8_t { kSought, kGiven } seeds = Seeds::kSought;
  /// Whether devices are exchanged at the end where links differ; else stages stay as they were found.
  enum class Placement : uint8_t { kExchange, kKeep } placement = Placement::kExchange;
  /// Schedules that may be chosen, in order of preference among equals.
  std::vector<std::string> schedules = default_schedules();
  /// Structures up to which everything is tried.
  uint64_t exhaustive_plans = 4000;
  /// Simulated actions (stages * micro-batches), and devices of judged plans, that the search may spend.
  uint64_t simulated_actions = 600'000;
};

/// Chooses cuts, replicas, micro-batches, warm-up depths, recompute and schedule together by the simulated time of a
/// mini-batch under the memory of each device. Small problems are searched exhaustively (stages on consecutive
/// devices); else the exact DP gives a seed per stage count and micro-batch count, and the best plans climb by moves: a
/// cut, a device, a merge, a split, recompute, micro-batches, schedule. Never worse than any candidate. The budget
/// counts work, not seconds: the same problem gives the same plan.
std::unique_ptr<StagePlanner> auto_planner(AutoOptions options = {});

}  // namespace rannc::partition
