/// Implements the planner that compares all other planners with its own search.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/stages/bounds/bounds.h"
#include "partition/stages/judge/finalists.h"
#include "partition/stages/planner.h"

namespace rannc::partition {

/// The schedules of `schedules_of_auto`. Those that split the backward pass only if the runtime does. Those with
/// several stages per device unless the demands specify stages or replicas without a number of stages per device.
std::vector<std::string> default_schedules(const PlanDemands& demands);

struct AutoOptions {
  /// Whether `rannc`, `gpipe`, `dapple` and `pipedream` contribute candidates.
  enum class Rivals : uint8_t { kInvited, kExcluded } rivals = Rivals::kInvited;
  /// Whether schedules that hold as little as possible (`latency`, `periodic`, `serial`) are searched if no plan fits
  /// and the user names no schedule. They place up to four stages on a device.
  enum class Lean : uint8_t { kIfNothingFits, kNever } lean = Lean::kIfNothingFits;
  /// Why the problem has no plan under the schedules that are tried first, as a search with `Lean::kNever` reported it.
  /// That search is not repeated.
  std::optional<Infeasible> refused;
  /// Plans of the problem that are additional candidates. The search starts from these, the rivals' plans and those of
  /// `seeds`. `kEven`: stages that share the devices equally, which takes a moment. `kSought`: also those of exact
  /// methods.
  std::vector<StagePlan> starts;
  enum class Seeds : uint8_t { kSought, kEven, kGiven } seeds = Seeds::kSought;
  /// Whether devices are exchanged at the end if links differ.
  enum class Placement : uint8_t { kExchange, kKeep } placement = Placement::kExchange;
  /// Allowed schedules. Earlier ones win ties. Empty: `default_schedules`. With `found`, rows are searched for the best
  /// plans under the others. If it is the only one, the others are those of `default_schedules`, and their plans do not
  /// count.
  std::vector<std::string> schedules;
  /// Search exhaustively up to this number of structures.
  uint64_t exhaustive_plans = 4000;
  /// Search budget: simulated actions (stages * micro-batches) plus devices of judged plans.
  uint64_t simulated_actions = 600'000;
  /// Budget of the search for rows, in simulated actions of that search, for all plans together. Where `found` is the
  /// only schedule, the budget is ten times as large. Plans with more than 256 devices times micro-batches, whose
  /// actions take longer, have a quarter of it. 0: only rows that a start has.
  uint64_t found_actions = 8'000'000;
  /// Budget of moves of cuts, replicas and recompute under found rows (`FoundMoves`), in simulated actions of their
  /// searches for rows, beside an eighth of `simulated_actions`. Where `found` is the only schedule, both are ten times
  /// as large. Only for plans with up to 256 devices times micro-batches. 0: none.
  uint64_t found_moves_actions = 16'000'000;
  /// Devices times micro-batches of all plans that are simulated device by device at the end.
  uint64_t device_slots = kDeviceSlots;
  /// Effort for the bound (`BoundEffort::steps`).
  uint64_t bound_steps = BoundEffort().steps;
};

/// Chooses cuts, replicas, micro-batches, warm-up depths, recompute and schedule together. Minimises the simulated time
/// of a mini-batch within the memory of each device. Small problems are searched exhaustively (stages on consecutive
/// devices). For larger ones the exact DP provides a seed per stage count and micro-batch count, and the best plans are
/// improved by local moves: a cut, a device, a merge, a split, recompute, micro-batches, schedule. If a schedule places
/// several stages on a device, plans in its layout compete beside those with one stage per device. At the end, rows are
/// searched for the best plans, whose stages are then moved under rows of their own. The result is never worse than any
/// candidate. The budget counts work instead of seconds, so the same problem always gives the same plan.
std::unique_ptr<StagePlanner> auto_planner(AutoOptions options = {});

}  // namespace rannc::partition
