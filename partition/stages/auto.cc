#include "partition/stages/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "partition/stages/bounds.h"
#include "partition/stages/internal/every_plan.h"
#include "partition/stages/internal/finish.h"
#include "partition/stages/internal/plan_moves.h"
#include "partition/stages/internal/plan_traffic.h"
#include "partition/stages/internal/threshold_search.h"
#include "partition/stages/judge.h"
#include "partition/stages/registry.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kShakes = 12;       ///< climbs from beside the best plan
constexpr uint64_t kSeedQueries = 16;  ///< of the exact DP, per start
constexpr double kSeedSteps = 1e9;     ///< of all of them, a few ns each
constexpr double kProven = 1e-8;       ///< a gap up to this is rounding
constexpr size_t kStarts = 12;         ///< plans from which the search climbs

/// What a candidate is, so that the same one is judged once.
std::string identity(const StagePlan& plan) {
  std::string text = fmt::format("{}|{}", plan.schedule, plan.micro_batches);
  for (const PlannedStage& stage : plan.stages) {
    text += fmt::format("|{}{}", stage.end, stage.recompute ? "r" : "");
    for (const DeviceId device : stage.devices) text += fmt::format(",{}", device.index());
  }
  for (const uint32_t depth : plan.warm_up) text += fmt::format(";{}", depth);
  return text;
}

std::string describe(const StagePlan& plan) {
  return fmt::format("{} ({} micro-batches, {}{})", brief(plan), plan.micro_batches, plan.schedule,
                     std::any_of(plan.stages.begin(), plan.stages.end(), [](const auto& s) { return s.recompute; })
                         ? ", recompute"
                         : "");
}

class AutoSearch {
 public:
  AutoSearch(const StageProblem& problem, const AutoOptions& options, std::stop_token stop)
      : problem_(problem),
        options_(options),
        stop_(std::move(stop)),
        judge_(problem),
        counts_(micro_batch_candidates(problem)),
        left_(options.simulated_actions) {}

  StageOutcome run() {
    for (const StagePlan& plan : options_.starts) {
      try_one(plan, "start");
      consider(plan, "start");
    }
    if (options_.rivals == AutoOptions::Rivals::kInvited) invite_rivals();
    const bool everything = count_plans(problem_, options_.exhaustive_plans + 1) <= options_.exhaustive_plans;
    if (everything) {
      every_plan(problem_, [&](const StagePlan& plan) { consider(plan, "exhaustive search"); });
    } else if (options_.seeds == AutoOptions::Seeds::kSought) {
      seed();
    }
    climb(everything);
    if (!best_) return infeasible();
    if (!everything) shake();
    place_devices();
    return finish(everything);
  }

 private:
  struct Entry {
    StagePlan plan;
    std::string from;
  };

  /// Judges the plan under every schedule; keeps the best.
  void consider(StagePlan plan, const std::string& from) {
    for (const std::string& schedule : options_.schedules) {
      if (schedule == "warmup") continue;  // depths follow from times: tried once a plan is good
      plan.schedule = schedule;
      plan.warm_up.clear();
      try_one(plan, from);
      if (plan.stages.size() == 1) break;  // all schedules are the same
    }
  }

  /// Judges one plan as it is; true: it is the best so far.
  bool try_one(StagePlan plan, const std::string& from) {
    if (!demanded(plan)) return false;
    const uint64_t actions = plan.stages.size() * plan.micro_batches;
    if (left_ < actions || (best_ && interrupted())) {
      stopped_ = true;
      return false;
    }
    std::string why;
    if (!seen_.insert(identity(plan)).second) return false;
    const bool fits = judge_.judge(plan, &why).has_value();
    settle();
    if (!fits) {
      last_refusal_ = why;
      return false;
    }
    keep_runner_up(plan, from);
    if (best_ && !better(plan, best_->plan)) return false;
    best_ = Entry{std::move(plan), from};
    return true;
  }

  /// Rivals may hand in plans with other micro-batches or another schedule than the user lists.
  bool demanded(const StagePlan& plan) const {
    const auto holds = [](const auto& list, const auto& item) {
      return std::find(list.begin(), list.end(), item) != list.end();
    };
    return (problem_.micro_batches.empty() || holds(counts_, plan.micro_batches)) &&
           holds(options_.schedules, plan.schedule);
  }

  void keep_runner_up(const StagePlan& plan, const std::string& from) {
    auto& slot = best_of_[from];
    if (slot.stages.empty() || plan.objective < slot.objective) slot = plan;
    // One entry per number of stages and micro-batches, so that the starts of climbing differ.
    const auto [start, fresh] = starts_.try_emplace({plan.stages.size(), plan.micro_batches}, plan);
    if (!fresh && better(plan, start->second)) start->second = plan;
  }

  bool interrupted() const { return stop_.stop_requested(); }

  void invite_rivals() {
    for (const std::string& name : rival_names()) {
      if (best_ && interrupted()) return;
      if (!within_reach(name, problem_)) {
        refusals_[name] = fmt::format("not asked: {} blocks on {} devices would take it too long", problem_.blocks,
                                      problem_.cluster.size());
        continue;
      }
      for (const InFlight discipline : {InFlight::kAll, InFlight::kOneFOneB}) {
        // Only RaNNC's DP plans for a discipline; the others choose their schedule themselves.
        if (discipline == InFlight::kAll && !name.starts_with("rannc")) continue;
        StageProblem problem = problem_;
        problem.in_flight = discipline;
        const auto outcome = make_planner(name)->candidate(problem, stop_);
        RANNC_CHECK(outcome.ok()) << outcome.diagnostic().str();
        if (const auto* plan = std::get_if<StagePlan>(&*outcome)) {
          try_one(*plan, name);
          consider(*plan, name);
        } else {
          refusals_[name] = std::get<Infeasible>(*outcome).reason;
        }
      }
    }
  }

  /// The exact DP's answer for each stage count and micro-batch count.
  void seed() {
    const StageCount count = stage_count(problem_);
    StageProblem without_values = problem_;
    without_values.values.clear();
    const RangeCosts silent(without_values);
    for (const uint64_t micro_batches : counts_) {
      if (best_ && interrupted()) return;
      for (const auto& outline : promising_stages(problem_, judge_.ranges(), micro_batches))
        sketch(outline, micro_batches);
      for (uint32_t stages = count.least; stages <= count.most; stages += std::max(1u, stages / 2)) {
        seed_one(micro_batches, stages, judge_.ranges());
        // The simulation overlaps transfers with computation: cuts that balance computation alone are worth a start.
        seed_one(micro_batches, stages, silent);
        if (stopped_) return;
      }
    }
  }

  /// Whether one more answer of the exact DP can be afforded; its steps are counted, not its seconds.
  bool charge_seed(uint32_t stages) {
    const double steps = kSeedQueries * (1 + stages / 16.0) * problem_.blocks * problem_.blocks;
    seed_steps_ -= steps;
    return seed_steps_ >= 0;
  }

  /// Judges stages laid out one behind the other, with recompute where they do not fit otherwise.
  void sketch(const std::vector<StageOutline>& outline, uint64_t micro_batches) {
    StagePlan plan;
    plan.micro_batches = micro_batches;
    uint32_t device = 0;
    for (const StageOutline& from : outline) {
      PlannedStage stage;
      stage.first = from.first;
      stage.end = from.end;
      stage.recompute = problem_.recompute == RecomputeRule::kAlways;
      for (uint32_t r = 0; r < from.replicas; ++r) stage.devices.push_back(DeviceId(device++));
      plan.stages.push_back(std::move(stage));
    }
    if (device > problem_.cluster.size() || !keeps_constraints(problem_, plan)) return;
    consider(plan, "own search");
    if (problem_.recompute != RecomputeRule::kChoose) return;
    for (PlannedStage& stage : plan.stages) stage.recompute = true;
    consider(plan, "own search");
  }

  void seed_one(uint64_t micro_batches, uint32_t stages, const RangeCosts& ranges) {
    if (!charge_seed(stages)) return;
    for (const InFlight discipline : {InFlight::kOneFOneB, InFlight::kAll}) {
      StageProblem problem = problem_;
      problem.in_flight = discipline;
      // Links between nodes count as those inside: the simulation and the moves mend what that hides.
      const auto finder = uniform_cover(problem, ranges, micro_batches);
      const auto answer = minimise_fill_drain({finder.get()}, {stages, stages}, {kSeedQueries});
      if (!answer) continue;
      StagePlan plan;
      plan.micro_batches = micro_batches;
      for (const CoveredStage& covered : answer->cover.stages) {
        PlannedStage stage;
        stage.first = covered.first;
        stage.end = covered.end;
        stage.recompute = covered.recompute;
        for (uint32_t d = covered.from; d < covered.to; ++d) stage.devices.push_back(DeviceId(d));
        plan.stages.push_back(std::move(stage));
      }
      consider(plan, "own search");
      return;
    }
  }

  /// First improvements from each of the best structures; each may spend an equal part of what is left.
  void climb(bool everything) {
    std::vector<StagePlan> starts;
    for (const auto& [shape, plan] : starts_) starts.push_back(plan);
    std::stable_sort(starts.begin(), starts.end(), better);
    if (starts.size() > kStarts) starts.resize(kStarts);
    for (size_t i = 0; i < starts.size(); ++i) {
      StagePlan current = starts[i];
      floor_ = left_ - left_ / (starts.size() - i);
      stopped_here_ = false;
      warm(current);
      if (everything) continue;
      ascend(current);
      stopped_ |= stopped_here_;
      floor_ = 0;
      stopped_here_ = false;
      warm(current);
    }
  }

  /// First improvements until there is none.
  void ascend(StagePlan& current) {
    bool moved = true;
    while (moved && !stopped_here_) {
      moved = any_move(problem_, counts_, current, [&](StagePlan next) { return improves(std::move(next), current); });
    }
  }

  /// Climbs again from places a few moves beside the best plan.
  void shake() {
    std::mt19937_64 random(1);
    const auto first = std::find_if(options_.schedules.begin(), options_.schedules.end(),
                                    [](const std::string& name) { return name != "warmup"; });
    if (first == options_.schedules.end()) return;
    for (uint32_t round = 0; round < kShakes && !interrupted(); ++round) {
      StagePlan current = best_->plan;
      if (current.schedule == "warmup") current.schedule = *first;
      current.warm_up.clear();
      for (uint32_t step = 0; step < 2 + round % 3; ++step) step_aside(current, random);
      stopped_here_ = false;
      if (!can_afford(current)) break;
      const bool fits = judge_.judge(current).has_value();
      settle();
      if (!fits) continue;
      ascend(current);
      if (!stopped_here_) warm(current);
    }
    stopped_ |= stopped_here_;
  }

  /// One move, whichever.
  void step_aside(StagePlan& current, std::mt19937_64& random) {
    uint64_t count = 0;
    any_move(problem_, counts_, current, [&](const StagePlan&) { return ++count == 0; });
    if (count == 0) return;
    uint64_t chosen = random() % count;
    StagePlan beside = current;
    any_move(problem_, counts_, current, [&](StagePlan next) {
      if (chosen-- > 0) return false;
      beside = std::move(next);
      return true;
    });
    current = std::move(beside);
  }

  /// Whether `next` beats `current` under its schedule or another; then it replaces it.
  bool improves(StagePlan next, StagePlan& current) {
    bool improved = false;
    StagePlan winner = current;
    for (const std::string& schedule : options_.schedules) {
      if (schedule == "warmup") continue;
      next.schedule = schedule;
      next.warm_up.clear();
      if (!can_afford(next)) return false;
      StagePlan judged = next;
      const bool fits = judge_.judge(judged, nullptr, winner.objective).has_value();
      settle();
      if (fits && better(judged, winner)) {
        winner = judged;
        improved = true;
      }
      if (next.stages.size() == 1) break;
    }
    if (improved) {
      current = winner;
      if (!best_ || better(winner, best_->plan)) best_ = Entry{winner, "own search"};
    }
    return improved;
  }

  bool can_afford(const StagePlan& plan) {
    const uint64_t actions = plan.stages.size() * plan.micro_batches;
    if (left_ < floor_ + actions || interrupted()) stopped_here_ = true;
    return !stopped_here_;
  }

  /// Takes what has been simulated since the last time off the budget.
  void settle() {
    const uint64_t spent = judge_.spent() - settled_;
    left_ -= std::min(left_, spent);
    settled_ += spent;
  }

  /// Tries warm-up depths by latency and memory, and uniformly deeper ones.
  void warm(StagePlan& plan) {
    if (plan.stages.size() < 2 ||
        std::find(options_.schedules.begin(), options_.schedules.end(), "warmup") == options_.schedules.end())
      return;
    const ChainTimes times = chain_times(problem_, judge_.ranges(), plan);
    if (*std::max_element(times.forward.begin(), times.forward.end()) <= 0) return;
    const uint32_t most = static_cast<uint32_t>(plan.micro_batches);
    for (uint32_t extra = 0; extra < 3; ++extra) {
      StagePlan next = plan;
      next.schedule = "warmup";
      next.warm_up = warmup_by_latency(times);
      for (uint32_t& depth : next.warm_up) depth = std::min<uint32_t>(depth + extra, most);
      if (!can_afford(next)) return;
      const bool fits = judge_.judge(next, nullptr, plan.objective).has_value();
      settle();
      if (!fits || !better(next, plan)) continue;
      plan = next;
      if (!best_ || better(next, best_->plan)) best_ = Entry{next, "own search"};
    }
  }

  /// Exchanges devices where links or nodes differ, and keeps what the simulation confirms.
  void place_devices() {
    if (problem_.cluster.uniform() || options_.placement == AutoOptions::Placement::kKeep) return;
    const PlacementTraffic traffic = traffic_of(problem_, judge_.ranges(), best_->plan);
    std::vector<uint32_t> replicas;
    StageDevices current;
    for (const PlannedStage& stage : best_->plan.stages) {
      replicas.push_back(static_cast<uint32_t>(stage.devices.size()));
      current.push_back(stage.devices);
    }
    for (const StageDevices& devices :
         {place(problem_.cluster, traffic, replicas), improve_placement(problem_.cluster, traffic, current)}) {
      StagePlan next = best_->plan;
      for (size_t s = 0; s < devices.size(); ++s) next.stages[s].devices = devices[s];
      if (judge_.judge(next) && better(next, best_->plan)) best_->plan = next;
    }
  }

  StageOutcome infeasible() {
    const auto outcome = rannc_planner()->plan(problem_);
    if (const auto* none = std::get_if<Infeasible>(&*outcome)) return *none;
    return Infeasible{"no candidate fits: " + last_refusal_, 0, "more memory per device, recompute, more devices"};
  }

  StagePlan finish(bool everything) {
    StagePlan plan = best_->plan;
    plan.lower_bound = std::min(judge_.lower_bound(&plan.bound_name, {.enough = plan.objective, .stop = stop_}), plan.objective);
    if (everything && !stopped_ && problem_.cluster.uniform() && plan.schedule != "warmup") {
      plan.lower_bound = plan.objective;
      plan.bound_name = "exhaustive search over the named schedules";
    }
    plan.bottleneck = bottleneck_of(plan);
    plan.notes.push_back("found by " + best_->from);
    if (interrupted()) {
      plan.notes.push_back("the search was interrupted: this is the best plan so far; another run may find another");
    } else if (stopped_ && plan.gap() > kProven) {
      plan.notes.push_back("the search stopped at its budget of simulated actions; exactness is given up");
    }
    for (const auto& [from, other] : best_of_) {
      if (identity(other) == identity(plan)) continue;
      plan.runners_up.push_back({from + ": " + describe(other), other.objective, bottleneck_of(other)});
    }
    for (const auto& [from, reason] : refusals_) {
      if (!best_of_.contains(from)) plan.runners_up.push_back({from, 0, reason});
    }
    return plan;
  }

  const StageProblem& problem_;
  const AutoOptions& options_;
  std::stop_token stop_;
  PlanJudge judge_;
  std::vector<uint64_t> counts_;
  uint64_t left_;
  uint64_t settled_ = 0;       ///< of what the judge has spent
  uint64_t floor_ = 0;         ///< what the present start must leave to the others
  bool stopped_here_ = false;  ///< the present start has spent its part
  bool stopped_ = false;
  double seed_steps_ = kSeedSteps;
  std::optional<Entry> best_;
  std::set<std::string> seen_;
  std::map<std::pair<size_t, uint64_t>, StagePlan> starts_;  ///< the best by stages and micro-batches
  std::map<std::string, StagePlan> best_of_;                 ///< per source
  std::map<std::string, std::string> refusals_;              ///< rivals without a plan
  std::string last_refusal_;
};

class AutoPlanner final : public StagePlanner {
 public:
  explicit AutoPlanner(AutoOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "auto"; }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token stop) const override {
    const bool puts_off = std::any_of(options_.schedules.begin(), options_.schedules.end(),
                                      [](const std::string& name) { return name.starts_with("zb-"); });
    if (puts_off) return AutoSearch(problem, options_, std::move(stop)).run();
    // No schedule parts a backward pass: the bound need not allow for one that does.
    StageProblem whole = problem;
    for (TimeTable& table : whole.times) table.weight_gradient.clear();
    return AutoSearch(whole, options_, std::move(stop)).run();
  }
  AutoOptions options_;
};

}  // namespace

std::unique_ptr<StagePlanner> auto_planner(AutoOptions options) {
  return std::make_unique<AutoPlanner>(std::move(options));
}

}  // namespace rannc::partition
