#include "partition/stages/search/replan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "partition/schedule/stage_layout.h"
#include "partition/stages/pricing/range_costs.h"
#include "partition/stages/problem/places.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

constexpr uint64_t kStructures = 1000;  ///< problems with fewer are searched exhaustively
constexpr uint64_t kActions = 40'000;   ///< simulated by the search
constexpr uint64_t kPlans = 160;        ///< more judged plans, each of which costs its devices
constexpr uint64_t kSlots = 4'000;      ///< `AutoOptions::device_slots`
constexpr uint64_t kBoundSteps = 4'000'000;

/// The places of the last plan with the devices that are left.
class Rest {
 public:
  Rest(const StageProblem& problem, const LastPlan& last) : plan_(last.plan), places_(places_of(last.plan)) {
    plan_.warm_up.clear();
    plan_.runners_up.clear();
    plan_.finalists.clear();
    plan_.notes.clear();
    std::vector<bool> used(problem.cluster.size(), false);
    for (const uint32_t first : places_.first_stage) {
      std::vector<DeviceId>& left = left_.emplace_back();
      for (const DeviceId device : last.plan.stages[first].devices) {
        if (last.now[device.index()].valid()) left.push_back(last.now[device.index()]);
      }
      std::sort(left.begin(), left.end());
      for (const DeviceId device : left) used[device.index()] = true;
    }
    for (uint32_t d = 0; d < used.size(); ++d) {
      if (!used[d]) unused_.push_back(DeviceId(d));
    }
  }

  /// Gives each place without devices one. Returns false if there are too few.
  bool refill() {
    for (std::vector<DeviceId>& place : left_) {
      if (!place.empty()) continue;
      std::vector<DeviceId>& most = *std::max_element(left_.begin(), left_.end(),
                                                      [](const auto& a, const auto& b) { return a.size() < b.size(); });
      std::vector<DeviceId>& from = unused_.empty() ? most : unused_;
      if (from.empty() || (unused_.empty() && most.size() < 2)) return false;
      place.push_back(from.back());
      from.pop_back();
    }
    return true;
  }

  StagePlan plan() const {
    StagePlan plan = plan_;
    for (size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].devices = left_[places_.of_stage[s]];
    return plan;
  }

  /// The same numbers of devices, from device 0 on.
  StagePlan consecutive() const {
    StagePlan plan = plan_;
    std::vector<size_t> sizes;
    for (const auto& place : left_) sizes.push_back(place.size());
    lay_consecutively(plan, places_, sizes);
    return plan;
  }

  /// As many devices for every place as the smallest has, from device 0 on. One device more often does not reduce the
  /// largest share of a micro-batch.
  StagePlan even() const {
    StagePlan plan = plan_;
    size_t least = SIZE_MAX;
    for (const auto& place : left_) least = std::min(least, place.size());
    lay_consecutively(plan, places_, std::vector<size_t>(left_.size(), least));
    return plan;
  }

  /// The plan with as many places as have devices, at least one.
  StagePlan with_fewer_places(Rebalancer& rebalancer) const {
    std::vector<uint32_t> replicas;
    for (const auto& place : left_) {
      if (!place.empty()) replicas.push_back(static_cast<uint32_t>(place.size()));
    }
    const auto ranks = static_cast<uint32_t>(replicas.size());
    const auto chunks = static_cast<uint32_t>(plan_.stages.size() / places_.count());
    StagePlan plan = rebalancer.arranged(layout(), ranks * chunks, replicas, plan_.micro_batches);
    plan.schedule = plan_.schedule;
    const bool recompute =
        std::any_of(plan_.stages.begin(), plan_.stages.end(), [](const auto& stage) { return stage.recompute; });
    for (PlannedStage& stage : plan.stages) stage.recompute |= recompute;
    return plan;
  }

 private:
  StageLayout layout() const {
    for (const StageLayout layout : {StageLayout::kOnePerRank, StageLayout::kV, StageLayout::kLoop}) {
      if (has_layout(layout, places_.of_stage)) return layout;
    }
    return StageLayout::kAny;
  }

  StagePlan plan_;
  StagePlaces places_;
  std::vector<std::vector<DeviceId>> left_;  ///< by place
  std::vector<DeviceId> unused_;
};

}  // namespace

std::vector<StagePlan> plans_of_rest(const StageProblem& problem, Rebalancer& rebalancer, const LastPlan& last) {
  std::vector<StagePlan> plans;
  Rest rest(problem, last);
  if (rest.refill()) {
    plans.push_back(rest.plan());
    plans.push_back(rest.consecutive());
    plans.push_back(rebalancer.balanced(plans.back()));
    plans.back().pattern = {};  // its rows may rely on what does not cross the old cuts
    plans.push_back(rebalancer.balanced(rest.even()));
    plans.back().pattern = {};
  } else {
    plans.push_back(rest.with_fewer_places(rebalancer));
  }
  std::erase_if(plans, [&](const StagePlan& plan) { return !keeps_constraints(problem, plan); });
  if (problem.recompute != RecomputeRule::kChoose) return plans;
  for (size_t i = 0, count = plans.size(); i < count; ++i) {  // fewer devices may have to hold more
    plans.push_back(plans[i]);
    plans.back().pattern = {};  // its rows repeat what the stages recomputed
    for (PlannedStage& stage : plans.back().stages) stage.recompute = true;
  }
  return plans;
}

Result<StageOutcome> replan(const StageProblem& problem, const LastPlan& last, const AutoOptions& options,
                            std::stop_token stop) {
  RANNC_TRY(validate(problem));
  const RangeCosts ranges(problem);
  Rebalancer rebalancer(problem, ranges);
  AutoOptions near = options;
  near.rivals = AutoOptions::Rivals::kExcluded;
  near.seeds = AutoOptions::Seeds::kEven;
  near.starts = plans_of_rest(problem, rebalancer, last);
  near.exhaustive_plans = std::min(near.exhaustive_plans, kStructures);
  near.simulated_actions = std::min(near.simulated_actions, kActions + kPlans * problem.cluster.size());
  near.device_slots = std::min(near.device_slots, kSlots);
  if (near.schedules != std::vector<std::string>{"found"}) near.found_actions = 0;
  near.found_moves_actions = 0;
  near.bound_steps = std::min(near.bound_steps, kBoundSteps);
  return auto_planner(std::move(near))->plan(problem, std::move(stop));
}

}  // namespace rannc::partition
