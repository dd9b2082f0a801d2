#include "partition/stages/search/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "partition/schedule/family.h"
#include "partition/stages/bounds/bounds.h"
#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/finalists.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/pricing/plan_traffic.h"
#include "partition/stages/registry.h"
#include "partition/stages/search/every_plan.h"
#include "partition/stages/search/plan_moves.h"
#include "partition/stages/search/rebalance.h"
#include "partition/stages/search/search_seeds.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kShakes = 12;        ///< climbs from beside the best plan
constexpr size_t kStarts = 12;          ///< plans from which the search climbs
constexpr uint64_t kExactSlots = 4096;  ///< devices * micro-batches up to which all plans are simulated by device
constexpr uint64_t kLong = 192;         ///< micro-batches from which plans are estimated first
constexpr double kSlack = 1.02;         ///< times the best: what an estimate may hide
constexpr double kProven = 1e-8;        ///< a gap up to this is rounding
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr const char* kOwn = "own search";

/// Whether the schedule is another one with deeper warm-ups.
bool deepens(const std::string& schedule) { return schedule_needs(schedule, ScheduleFamily::Needs::kWarmUp); }

bool splits_backward(const std::string& schedule) {
  const ScheduleFamily* family = find_schedule(schedule);
  return family != nullptr && family->splits_backward;
}

class AutoSearch {
 public:
  AutoSearch(const StageProblem& problem, const AutoOptions& options, std::stop_token stop)
      : problem_(problem),
        options_(options),
        stop_(std::move(stop)),
        judge_(problem),
        rebalancer_(problem, judge_.ranges()),
        counts_(micro_batch_candidates(problem)),
        left_(options.simulated_actions) {}

  StageOutcome run() {
    everything_ = count_plans(problem_, options_.exhaustive_plans + 1) <= options_.exhaustive_plans;
    exact_ = everything_ && problem_.objective == Objective::kStepTime &&
             problem_.cluster.size() * counts_.back() <= kExactSlots;
    for (const StagePlan& plan : options_.starts) {
      try_one(plan, "start");
      if (!exact_ && demanded(plan)) hand_in(plan, "start");
      consider(plan, "start");
    }
    if (options_.rivals == AutoOptions::Rivals::kInvited) invite_rivals();
    if (everything_) {
      every_plan(problem_, [&](const StagePlan& plan) { consider(plan, "exhaustive search"); });
    } else if (options_.seeds == AutoOptions::Seeds::kSought) {
      seed();
    }
    climb();
    if (!best_) return infeasible();
    if (!everything_) shake();
    place_devices();
    choose_finished();
    return finish();
  }

 private:
  /// Judges the plan under every schedule; keeps the best.
  void consider(StagePlan plan, const std::string& from) {
    for (const std::string& schedule : options_.schedules) {
      if (deepens(schedule)) continue;  // depths follow from times: tried once a plan is good
      plan.schedule = schedule;
      plan.warm_up.clear();
      try_one(plan, from);
      if (plan.stages.size() == 1) break;  // all schedules are the same
    }
  }

  /// Judges one plan as it is; true: it is the best so far.
  bool try_one(StagePlan plan, const std::string& from) {
    if (!demanded(plan)) return false;
    if (left_ == 0 || (best_ && interrupted())) {
      stopped_ = true;
      return false;
    }
    std::string why;
    if (!seen_.insert(identity(plan)).second) return false;
    if (best_ && from == kOwn && estimates(plan)) {
      const bool fits = measured(plan);
      if (fits) keep_start(plan);
      if (!fits || plan.objective > best_->plan.objective * kSlack) return false;
    }
    if (!sketched(plan, &why)) {
      last_refusal_ = why;
      return false;
    }
    keep_runner_up(plan, from);
    return finished(plan) && offer(plan, from);
  }

  /// Whether the search goes by estimates of such plans, and simulates to the end only what it arrives at.
  bool estimates(const StagePlan& plan) const {
    return !everything_ && plan.micro_batches >= kLong && problem_.objective == Objective::kStepTime;
  }

  /// `judged`, or an estimate.
  bool measured(StagePlan& plan, double beat = kInfinity) {
    if (!estimates(plan)) return judged(plan, beat);
    const bool fits = judge_.estimate(plan, nullptr, beat).has_value();
    settle();
    return fits;
  }

  /// Takes note of a plan that was measured; an estimated one counts once it has been confirmed.
  void note(const StagePlan& plan) {
    if (!estimates(plan)) offer(plan, kOwn);
  }

  /// Simulates to the end what has been estimated, where it may be the best.
  void confirm(StagePlan plan) {
    if (!estimates(plan) || (best_ && plan.objective > best_->plan.objective * kSlack)) return;
    if (judged(plan)) offer(plan, kOwn);
  }

  bool sketched(StagePlan& plan, std::string* why, double beat = kInfinity) {
    const bool fits = judge_.judge(plan, why, exact_ ? kInfinity : beat).has_value();
    settle();
    return fits;
  }

  /// Where everything is tried, every plan is finished unless it cannot be the best.
  bool finished(StagePlan& plan, double beat = kInfinity) {
    if (!exact_) return true;
    const double best = best_ ? best_->plan.objective * (1 + 1e-6) : kInfinity;
    return judge_.finish(plan, &last_refusal_, std::min(beat, best)).has_value();
  }

  /// Judges a plan; false: it does not fit, or cannot beat `beat`.
  bool judged(StagePlan& plan, double beat = kInfinity) {
    return sketched(plan, nullptr, beat) && finished(plan, beat);
  }

  /// Takes note of a plan that was judged; true: it is the best so far.
  bool offer(const StagePlan& plan, const std::string& from) {
    if (!exact_) finalists_.offer(plan, from);
    if (best_ && !better(plan, best_->plan)) return false;
    best_ = Candidate{plan, from};
    return true;
  }

  /// The best of the finalists as they will run, and the others beside it.
  void choose_finished() {
    if (!exact_) {
      const std::vector<Candidate> finished = finalists_.finished(judge_);
      if (finished.empty()) return;
      best_ = finished.front();
    }
    for (auto& [from, other] : best_of_) {
      if (may_finish(other)) judge_.finish(other);
    }
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
    keep_start(plan);
  }

  void keep_start(const StagePlan& plan) {
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
          if (try_one(*plan, name); !exact_ && demanded(*plan)) hand_in(*plan, name);
          consider(*plan, name);
        } else {
          refusals_[name] = std::get<Infeasible>(*outcome).reason;
        }
      }
    }
  }

  /// A rival's plan under its own schedule must not win elsewhere, whatever else was found.
  void hand_in(StagePlan plan, const std::string& from) {
    if (judge_.judge(plan)) finalists_.hand_in(plan, from);
  }

  void seed() {
    each_seed(problem_, rebalancer_, counts_, [&](const StagePlan& plan) {
      consider(plan, kOwn);
      return !stopped_ && !(best_ && interrupted());
    });
  }

  /// First improvements from each of the best structures; each may spend an equal part of what is left.
  void climb() {
    std::vector<StagePlan> starts;
    for (const auto& [shape, plan] : starts_) starts.push_back(plan);
    std::stable_sort(starts.begin(), starts.end(), better);
    if (starts.size() > kStarts) starts.resize(kStarts);
    for (size_t i = 0; i < starts.size(); ++i) {
      StagePlan current = starts[i];
      floor_ = left_ - left_ / (starts.size() - i);
      stopped_here_ = false;
      if (estimates(current) && !measured(current)) continue;
      warm(current);
      if (everything_) continue;
      ascend(current);
      stopped_ |= stopped_here_;
      floor_ = 0;
      stopped_here_ = false;
      warm(current);
      confirm(current);
    }
  }

  /// First improvements until there is none.
  void ascend(StagePlan& current) {
    bool moved = true;
    while (moved && !stopped_here_) {
      moved = any_move(problem_, counts_, current, [&](const StagePlan& next) {
        if (improves(next, current)) return true;
        // Other devices for a stage need other cuts.
        return !stopped_here_ && other_devices(next, current) && improves(rebalancer_.balanced(next), current);
      });
    }
  }

  /// Climbs again from places a few moves beside the best plan.
  void shake() {
    std::mt19937_64 random(1);
    const auto first = std::find_if(options_.schedules.begin(), options_.schedules.end(), std::not_fn(deepens));
    if (first == options_.schedules.end()) return;
    for (uint32_t round = 0; round < kShakes && !interrupted(); ++round) {
      StagePlan current = best_->plan;
      if (deepens(current.schedule)) current.schedule = *first;
      current.warm_up.clear();
      for (uint32_t step = 0; step < 2 + round % 3; ++step) step_aside(current, random);
      stopped_here_ = false;
      if (!can_afford()) break;
      if (!measured(current)) continue;
      ascend(current);
      if (!stopped_here_) warm(current);
      confirm(current);
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
      if (deepens(schedule)) continue;
      next.schedule = schedule;
      next.warm_up.clear();
      if (!can_afford()) return false;
      StagePlan tried = next;
      if (measured(tried, winner.objective)) {
        if (!estimates(tried)) finalists_.offer(tried, kOwn);
        if (better(tried, winner)) {
          winner = tried;
          improved = true;
        }
      }
      if (next.stages.size() == 1) break;
    }
    if (improved) {
      current = winner;
      note(winner);
    }
    return improved;
  }

  /// What a plan will cost is known only once its steady part is: the last one may overdraw.
  bool can_afford() {
    if (left_ <= floor_ || interrupted()) stopped_here_ = true;
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
    const auto deepened = std::find_if(options_.schedules.begin(), options_.schedules.end(), deepens);
    if (plan.stages.size() < 2 || deepened == options_.schedules.end()) return;
    const ChainTimes times = chain_times(problem_, judge_.ranges(), plan);
    if (*std::max_element(times.forward.begin(), times.forward.end()) <= 0) return;
    const uint32_t most = static_cast<uint32_t>(plan.micro_batches);
    for (uint32_t extra = 0; extra < 3; ++extra) {
      StagePlan next = plan;
      next.schedule = *deepened;
      next.warm_up = warmup_by_latency(times);
      for (uint32_t& depth : next.warm_up) depth = std::min<uint32_t>(depth + extra, most);
      if (!can_afford()) return;
      if (!measured(next, plan.objective) || !better(next, plan)) continue;
      plan = next;
      note(next);
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
      if (!judged(next)) continue;
      finalists_.hand_in(next, best_->from);
      if (better(next, best_->plan)) best_->plan = next;
    }
  }

  StageOutcome infeasible() {
    const auto outcome = rannc_planner()->candidate(problem_, stop_);
    if (const auto* none = std::get_if<Infeasible>(&*outcome)) return *none;
    return Infeasible{"no candidate fits: " + last_refusal_, 0, "more memory per device, recompute, more devices"};
  }

  StagePlan finish() {
    StagePlan plan = best_->plan;
    plan.lower_bound =
        std::min(judge_.lower_bound(&plan.bound_name, {.enough = plan.objective, .stop = stop_}), plan.objective);
    const bool as_it_runs = exact_ || problem_.objective != Objective::kStepTime;
    if (everything_ && as_it_runs && !stopped_ && problem_.cluster.uniform() && !deepens(plan.schedule)) {
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
    plan.runners_up = runners_up(plan, best_of_);
    for (const auto& [from, reason] : refusals_) {
      if (!best_of_.contains(from)) plan.runners_up.push_back({from, 0, reason});
    }
    return plan;
  }

  const StageProblem& problem_;
  const AutoOptions& options_;
  std::stop_token stop_;
  PlanJudge judge_;
  Rebalancer rebalancer_;
  std::vector<uint64_t> counts_;
  uint64_t left_;
  uint64_t settled_ = 0;       ///< of what the judge has spent
  uint64_t floor_ = 0;         ///< what the present start must leave to the others
  bool stopped_here_ = false;  ///< the present start has spent its part
  bool stopped_ = false;
  std::optional<Candidate> best_;
  Finalists finalists_;
  bool everything_ = false;
  bool exact_ = false;  ///< every plan is simulated device by device
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
    if (std::any_of(options_.schedules.begin(), options_.schedules.end(), splits_backward))
      return AutoSearch(problem, options_, std::move(stop)).run();
    // No schedule parts a backward pass: the bound need not allow for one that does.
    StageProblem whole = problem;
    for (TimeTable& table : whole.times) table.weight_gradient.clear();
    return AutoSearch(whole, options_, std::move(stop)).run();
  }
  AutoOptions options_;
};

}  // namespace

std::vector<std::string> default_schedules() {
  std::vector<std::string> names = schedules_of_auto();
  std::erase_if(names, splits_backward);
  return names;
}

std::unique_ptr<StagePlanner> auto_planner(AutoOptions options) {
  return std::make_unique<AutoPlanner>(std::move(options));
}

}  // namespace rannc::partition
