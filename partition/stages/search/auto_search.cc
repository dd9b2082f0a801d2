#include "partition/stages/search/auto_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "partition/schedule/family.h"
#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/pricing/plan_traffic.h"
#include "partition/stages/problem/places.h"
#include "partition/stages/registry.h"
#include "partition/stages/search/arrangements.h"
#include "partition/stages/search/every_plan.h"
#include "partition/stages/search/found_moves.h"
#include "partition/stages/search/local_search.h"
#include "partition/stages/search/plan_contest.h"
#include "partition/stages/search/plan_trials.h"
#include "partition/stages/search/search_seeds.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kShakes = 12;        ///< searches from perturbations of the best plan
constexpr size_t kStarts = 12;          ///< plans from which the local search starts
constexpr uint64_t kExactSlots = 4096;  ///< devices * micro-batches up to which all plans are simulated by device
constexpr uint64_t kShortRows = 256;    ///< devices * micro-batches up to which rows are searched thoroughly
constexpr uint64_t kJudgedMoves = 8;    ///< part of the budget that moves under found rows may add to it
constexpr double kProven = 1e-8;        ///< a gap up to this is rounding

const std::string kFound = "found";

bool is_enumerable(const StageProblem& problem, const Arrangement& arrangement, uint64_t most_plans) {
  return count_plans(problem, arrangement, most_plans + 1) <= most_plans;
}

TrialRules rules_of(const StageProblem& problem, const AutoOptions& options, uint64_t most_micro_batches) {
  TrialRules rules;
  const std::vector<Arrangement> all = arrangements(problem, options.schedules);
  rules.everything = std::all_of(all.begin(), all.end(), [&](const Arrangement& one) {
    return is_enumerable(problem, one, options.exhaustive_plans);
  });
  rules.by_device = rules.everything && problem.objective == Objective::kStepTime &&
                    problem.cluster.size() * most_micro_batches <= kExactSlots;
  return rules;
}

/// Returns the traffic of stages as that of the places that hold them.
PlacementTraffic between_places(const PlacementTraffic& traffic, const StagePlaces& places) {
  PlacementTraffic found;
  found.gradient_bytes.assign(places.count(), 0);
  for (size_t s = 0; s < places.of_stage.size(); ++s)
    found.gradient_bytes[places.of_stage[s]] += traffic.gradient_bytes[s];
  for (const PlacementTraffic::Edge& edge : traffic.edges) {
    const uint32_t from = places.of_stage[edge.from], to = places.of_stage[edge.to];
    if (from != to) found.edges.push_back({from, to, edge.bytes});
  }
  return found;
}

class AutoSearch {
 public:
  AutoSearch(const StageProblem& problem, const AutoOptions& options, FoundRows found, std::stop_token stop)
      : problem_(problem),
        options_(options),
        found_(found),
        stop_(stop),
        counts_(micro_batch_candidates(problem)),
        arrangements_(arrangements(problem, options.schedules)),
        rules_(rules_of(problem, options, counts_.empty() ? 0 : counts_.back())),
        contest_(rules_.by_device),
        trials_(problem, contest_, rules_, options.simulated_actions, std::move(stop)),
        local_(problem, options.schedules, counts_, trials_, contest_) {}

  StageOutcome run() {
    for (const StagePlan& plan : options_.starts) enter(plan, "start");
    if (options_.rivals == AutoOptions::Rivals::kInvited && separate()) invite_rivals();
    if (rules_.everything || options_.seeds != AutoOptions::Seeds::kGiven) seed();
    climb();
    if (!contest_.best()) return infeasible();
    if (!rules_.everything) shake();
    place_devices();
    contest_.choose_by_device(trials_.judge(), options_.device_slots);
    search_rows();
    if (found_ == FoundRows::kRequired && contest_.best()->plan.schedule != kFound) return no_rows();
    return chosen();
  }

 private:
  /// Whether stages may have devices of their own.
  bool separate() const {
    return std::find(arrangements_.begin(), arrangements_.end(), Arrangement{}) != arrangements_.end();
  }

  bool may_stop() const { return contest_.best() && trials_.interrupted(); }

  /// Judges a plan from elsewhere as it is, then under every schedule. As it is it must not be better than the result.
  void enter(StagePlan plan, const std::string& from) {
    plan.finalists.clear();
    if (!plan.pattern.empty()) known_rows_.push_back({plan, from});
    plan.pattern = {};
    if (problem_.recompute == RecomputeRule::kAlways) {  // some rivals have a rule of their own
      for (PlannedStage& stage : plan.stages) stage.recompute = true;
    }
    try_one(plan, from);
    if (!rules_.by_device && demanded(plan)) {
      if (const JudgedPlan judged = trials_.judge().judge(plan)) contest_.hand_in(*judged, from);
    }
    consider(plan, from);
  }

  /// Judges the plan under every schedule. Keeps the best.
  void consider(StagePlan plan, const std::string& from) {
    for (const std::string& schedule : options_.schedules) {
      // Depths follow from times. Beside other schedules they are tried once a plan is good.
      if (deepens_warm_up(schedule) && options_.schedules.size() > 1) continue;
      if (!suits(schedule, plan)) continue;
      plan.schedule = schedule;
      plan.warm_up.clear();
      try_one(plan, from);
      if (plan.stages.size() == 1) break;  // all schedules are the same
    }
  }

  /// Judges one plan as it is.
  void try_one(StagePlan plan, const std::string& from) {
    if (!demanded(plan)) return;
    if (trials_.spent() || may_stop()) {
      stopped_ = true;
      return;
    }
    if (!seen_.insert(identity(plan)).second) return;
    if (contest_.best() && from == kOwnSearch && trials_.estimates(plan)) {
      const bool fits = trials_.measured(plan);
      if (fits) contest_.keep_start(plan);
      if (!fits || plan.objective > contest_.least() * kEstimateSlack) return;
    }
    if (!trials_.first_look(plan)) return;
    contest_.keep_runner_up(plan, from);
    if (trials_.by_device(plan)) contest_.offer(plan, from);
  }

  /// Rivals may return plans with micro-batches or a schedule outside the user's lists.
  bool demanded(const StagePlan& plan) const {
    const auto holds = [](const auto& list, const auto& item) {
      return std::find(list.begin(), list.end(), item) != list.end();
    };
    return (problem_.micro_batches.empty() || holds(counts_, plan.micro_batches)) &&
           holds(options_.schedules, plan.schedule) && suits(plan.schedule, plan);
  }

  void invite_rivals() {
    for (const std::string& name : rival_names()) {
      if (may_stop()) return;
      if (!within_reach(name, problem_)) {
        refusals_[name] = fmt::format("not run: {} blocks on {} devices would take too long", problem_.blocks,
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
          enter(*plan, name);
        } else {
          refusals_[name] = std::get<Infeasible>(*outcome).reason;
        }
      }
    }
  }

  /// Tries starting points of the arrangements with many plans, then all plans of those with few.
  void seed() {
    std::vector<Arrangement> few, many;
    for (const Arrangement& one : arrangements_) {
      (is_enumerable(problem_, one, options_.exhaustive_plans) ? few : many).push_back(one);
    }
    if (!many.empty()) seed_from(many);
    for (const Arrangement& one : few) {
      every_plan(problem_, one, [&](const StagePlan& plan) { consider(plan, "exhaustive search"); });
    }
  }

  void seed_from(const std::vector<Arrangement>& all) {
    const auto visit = [&](const StagePlan& plan) {
      consider(plan, kOwnSearch);
      return !stopped_ && !may_stop();
    };
    if (options_.seeds == AutoOptions::Seeds::kEven) {
      each_even_seed(problem_, local_.rebalancer(), all, counts_, visit);
    } else {
      each_seed(problem_, local_.rebalancer(), all, counts_, visit);
    }
  }

  /// Local search from each of the best structures. Each may spend an equal part of the remaining budget.
  void climb() {
    const std::vector<StagePlan> starts = contest_.starts(kStarts);
    for (size_t i = 0; i < starts.size(); ++i) {
      StagePlan current = starts[i];
      trials_.begin_share(starts.size() - i);
      if (trials_.estimates(current) && !trials_.measured(current)) continue;
      local_.warm(current);
      if (rules_.everything) continue;
      local_.ascend(current);
      stopped_ |= trials_.share_spent();
      trials_.end_share();
      local_.warm(current);
      local_.confirm(current);
    }
  }

  /// Repeats the local search from plans a few moves away from the best.
  void shake() {
    std::mt19937_64 random(1);
    if (std::all_of(options_.schedules.begin(), options_.schedules.end(), deepens_warm_up)) return;
    for (uint32_t round = 0; round < kShakes && !trials_.interrupted(); ++round) {
      trials_.end_share();
      if (!local_.search_beside(contest_.best()->plan, 2 + round % 3, random)) break;
    }
    stopped_ |= trials_.share_spent();
  }

  /// Exchanges devices if links or nodes differ. Keeps changes that the simulation confirms.
  void place_devices() {
    if (problem_.cluster.uniform() || options_.placement == AutoOptions::Placement::kKeep) return;
    const StagePlaces places = places_of(contest_.best()->plan);
    const PlacementTraffic traffic =
        between_places(traffic_of(problem_, trials_.ranges(), contest_.best()->plan), places);
    std::vector<uint32_t> replicas;
    StageDevices current;
    for (const uint32_t first : places.first_stage) {
      current.push_back(contest_.best()->plan.stages[first].devices);
      replicas.push_back(static_cast<uint32_t>(current.back().size()));
    }
    for (const StageDevices& devices :
         {place(problem_.cluster, traffic, replicas), improve_placement(problem_.cluster, traffic, current)}) {
      StagePlan next = contest_.best()->plan;
      for (size_t s = 0; s < next.stages.size(); ++s) next.stages[s].devices = devices[places.of_stage[s]];
      if (!trials_.judged(next)) continue;
      contest_.hand_in(next, contest_.best()->from);
      if (better(next, contest_.best()->plan)) contest_.replace_best(next);
    }
  }

  bool found_competes() const {
    return found_ == FoundRows::kRequired ||
           (found_ == FoundRows::kAllowed && problem_.objective == Objective::kStepTime);
  }

  /// Searches rows for the best plans. Each may spend an equal part of the remaining budget.
  void search_rows() {
    if (!found_competes()) return;
    std::vector<Candidate> plans = contest_.leaders();
    if (plans.empty()) plans.push_back(*contest_.best());
    const bool required = found_ == FoundRows::kRequired;
    std::optional<Candidate> best;
    if (!required) best = contest_.best();
    const auto take = [&](JudgedPlan judged, const std::string& from) {
      if (!judged) no_rows_ = judged.why();
      if (judged && (!best || better(*judged, best->plan))) best = Candidate{*std::move(judged), from};
    };
    for (const Candidate& known : known_rows_) {
      if (!required && !is_small(known.plan, 8 * options_.device_slots)) continue;
      JudgedPlan judged = trials_.judge().judge(known.plan);
      if (judged) judged = trials_.judge().judge_by_device(*judged);
      take(std::move(judged), known.from);
    }
    for (size_t i = 0; i < plans.size() && options_.found_actions > 0 && !trials_.interrupted(); ++i) {
      const StagePlan& plan = plans[i].plan;
      if (plan.stages.size() == 1 && !required) continue;
      const uint64_t actions = options_.found_actions * (required ? 10 : 1) / plans.size() / (is_short(plan) ? 1 : 4);
      const double beat = best && !required ? best->plan.step_ns : kInfinity;
      take(trials_.judge().find_rows(plan, actions, beat), plans[i].from);
    }
    if (best) move_under_rows(plans, *best);
    if (best) contest_.replace_best(*std::move(best));
  }

  /// Whether a search for rows takes milliseconds.
  static bool is_short(const StagePlan& plan) {
    size_t devices = 0;
    for (const PlannedStage& stage : plan.stages) devices += stage.devices.size();
    return devices * plan.micro_batches <= kShortRows;
  }

  /// Moves the stages of the best plan, then those of the best other one, under rows of their own.
  void move_under_rows(const std::vector<Candidate>& plans, Candidate& best) {
    if (problem_.objective != Objective::kStepTime || options_.found_moves_actions == 0 || !is_short(best.plan)) return;
    const uint64_t times = found_ == FoundRows::kRequired ? 10 : 1;
    FoundMovesOptions moves{options_.schedules, times * options_.found_moves_actions,
                            times * options_.simulated_actions / kJudgedMoves};
    std::erase_if(moves.schedules, deepens_warm_up);
    FoundMoves search(problem_, trials_.judge(), std::move(moves), stop_);
    const std::string first = structure(best.plan);
    search.climb(best.plan, best);
    for (const Candidate& other : plans) {
      if (structure(other.plan) == first || !is_short(other.plan)) continue;
      search.climb(other.plan, best);
      break;
    }
  }

  StageOutcome no_rows() const {
    return Infeasible{fmt::format("no rows for the best plan's stages: {}", no_rows_), 0,
                      "another schedule, more memory per device"};
  }

  StageOutcome infeasible() {
    if (!separate()) return no_shared_plan();
    const auto outcome = rannc_planner()->candidate(problem_, stop_);
    if (const auto* none = std::get_if<Infeasible>(&*outcome)) return *none;
    return Infeasible{"no candidate fits: " + trials_.last_refusal(), 0,
                      "more memory per device, recompute, more devices"};
  }

  Infeasible no_shared_plan() const {
    const uint32_t chunks = most_stages_per_device(arrangements_);
    const std::string refusal = trials_.last_refusal();
    if (!refusal.empty())
      return {fmt::format("no plan with {} stages per device fits: {}", chunks, refusal), 0,
              "more memory per device, recompute, more devices"};
    return {fmt::format("{} blocks on {} devices have no plan with {} stages per device that meets the demands",
                        problem_.blocks, problem_.cluster.size(), chunks),
            0, "other numbers of stages, more blocks, more micro-batches, another schedule"};
  }

  /// The bound over all plans is weak. Adds the stronger one over the plans with one stage per device.
  void note_separate_bound(StagePlan& plan) {
    const Bound bound =
        trials_.judge().lower_bound({.enough = plan.objective, .steps = options_.bound_steps, .stop = stop_});
    const bool bytes = problem_.objective == Objective::kPeakMemory;
    plan.notes.push_back(
        bytes ? fmt::format("no plan with one stage per device is below {:.0f} bytes ({})", bound.value, bound.argument)
              : fmt::format("no plan with one stage per device is below {:.3f} ms ({})", bound.value / 1e6,
                            bound.argument));
  }

  /// Clears `recompute` of stages that keep everything: with rebuild hulls, such stages repeat nothing.
  StagePlan without_idle_recompute(StagePlan plan) {
    if (problem_.rebuild_hulls.empty()) return plan;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      if (!plan.stages[s].recompute) continue;
      StagePlan keeps = plan;
      keeps.stages[s].recompute = false;
      const JudgedPlan judged = trials_.judge().judge(std::move(keeps));
      if (judged && judged->stages[s].peak_bytes <= plan.stages[s].peak_bytes) plan.stages[s].recompute = false;
    }
    return plan;
  }

  StagePlan chosen() {
    StagePlan plan = without_idle_recompute(contest_.best()->plan);
    BoundEffort effort{.enough = plan.objective, .steps = options_.bound_steps, .stop = stop_};
    effort.shared_devices = most_stages_per_device(arrangements_) > 1;
    Bound bound = trials_.judge().lower_bound(effort);
    plan.lower_bound = std::min(bound.value, plan.objective);
    plan.bound_name = std::move(bound.argument);
    const bool as_it_runs = rules_.by_device || problem_.objective != Objective::kStepTime;
    const bool named = found_ == FoundRows::kNever && !deepens_warm_up(plan.schedule);
    if (rules_.everything && as_it_runs && !stopped_ && problem_.cluster.uniform() && named) {
      plan.lower_bound = plan.objective;
      plan.bound_name = "exhaustive search over the named schedules";
    }
    if (effort.shared_devices && separate() && plan.gap() > kProven) note_separate_bound(plan);
    plan.bottleneck = bottleneck_of(plan);
    plan.notes.push_back("found by " + contest_.best()->from);
    if (trials_.interrupted()) {
      plan.notes.push_back("the search was interrupted: this is the best plan so far; another run may find another");
    } else if (stopped_ && plan.gap() > kProven) {
      plan.notes.push_back("the search stopped at its budget of simulated actions; exactness is given up");
    }
    plan.finalists = contest_.finalists_beside(plan);
    plan.runners_up = contest_.runners_up_of(plan);
    for (const auto& [from, reason] : refusals_) {
      if (!contest_.has_plan_of(from)) plan.runners_up.push_back({from, 0, reason});
    }
    return plan;
  }

  const StageProblem& problem_;
  const AutoOptions& options_;
  FoundRows found_;
  std::stop_token stop_;
  std::vector<uint64_t> counts_;
  std::vector<Arrangement> arrangements_;
  TrialRules rules_;
  PlanContest contest_;
  PlanTrials trials_;
  LocalSearch local_;
  bool stopped_ = false;  ///< whether the budget or the user ended a part of the search
  std::set<std::string> seen_;
  std::map<std::string, std::string> refusals_;  ///< rivals without a plan
  std::vector<Candidate> known_rows_;            ///< plans from elsewhere under schedule `found`
  std::string no_rows_;                          ///< the last reason
};

}  // namespace

StageOutcome auto_search(const StageProblem& problem, const AutoOptions& options, FoundRows found,
                         std::stop_token stop) {
  return AutoSearch(problem, options, found, std::move(stop)).run();
}

}  // namespace rannc::partition
