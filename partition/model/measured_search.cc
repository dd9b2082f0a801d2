#include "partition/model/measured_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "partition/model/fitted_times.h"
#include "partition/model/lap.h"
#include "partition/model/planning_steps.h"
#include "partition/model/program_key.h"
#include "partition/model/sharded_stages.h"
#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/finalists.h"
#include "partition/stages/problem/places.h"

namespace rannc::partition {

namespace {

constexpr uint32_t kMostRounds = 4;  // searches with measured stages
constexpr double kClose = 1.1;       // multiple of the best objective up to which finalists are measured

/// Structures of plans, and whether they split the backward pass: equal ones run equal stages.
std::vector<std::string> structures(const std::vector<StagePlan>& plans) {
  std::vector<std::string> all;
  for (const StagePlan& plan : plans) all.push_back(structure(plan) + (parts_backward(plan) ? "|W" : ""));
  return all;
}

JudgedPlan judged(PlanJudge& judge, const StagePlan& plan) {
  JudgedPlan found = judge.judge(plan);
  return found && is_small(plan) ? judge.judge_by_device(*found) : found;
}

class MeasuredSearch {
 public:
  MeasuredSearch(const PlanOptions& options, const ModelFacts& facts, PlannedModel& planned)
      : options_(options), facts_(facts), planned_(planned), problem_(planned.problem) {
    if (options_.training)
      options_.shard_optimizer = problem_.sharded ? ShardOptimizer::kAlways : ShardOptimizer::kNever;
  }

  Result<void> run() {
    std::vector<StagePlan> ranking = ranked(planned_.stages);
    bool stands = false;
    while (!stands) {
      RANNC_ASSIGN(const bool news, measure(ranking));
      if (measured_.empty()) return {};
      stands = !news;
      if (stands || rounds_ == kMostRounds || options_.stop.stop_requested()) break;
      ++rounds_;
      RANNC_ASSIGN(std::vector<StagePlan> next, search_again());
      stands = structures(next) == structures(ranking);
      ranking = std::move(next);
    }
    return conclude(stands);
  }

 private:
  /// A stage's programs on a kind of device, for a number of samples.
  struct Program {
    std::string key;
    uint32_t kind = 0, samples = 0;
    bool splits_backward = false;
    auto operator<=>(const Program&) const = default;
  };
  struct Entry {
    StageRun run;
    Program program;
  };

  /// Returns the plan and those of its finalists that are close to it and can run, best first.
  std::vector<StagePlan> ranked(const StagePlan& best) const {
    std::vector<StagePlan> ranking;
    const auto add = [&](StagePlan plan) {
      plan.finalists.clear();
      plan.planner = best.planner;
      if (ranking.size() == options_.measured_finalists || plan.objective > kClose * best.objective) return;
      if (!refused_.contains(identity(plan))) ranking.push_back(std::move(plan));
    };
    add(best);
    for (const StagePlan& other : best.finalists) add(other);
    return ranking;
  }

  /// Measures the plans whose stages are not all known. Returns whether there were any.
  Result<bool> measure(const std::vector<StagePlan>& plans) {
    bool news = false;
    for (const StagePlan& plan : plans) {
      if (is_measured(plan)) continue;
      RANNC_ASSIGN(const PlannedModel finished, completed(plan));
      const std::vector<Entry> entries = entries_of(finished);
      const auto known = [&](const Entry& entry) { return known_.contains(entry.program); };
      if (!std::all_of(entries.begin(), entries.end(), known)) {
        std::optional<std::vector<ir::StageTime>> times;
        if (overfull(finished.plan, options_).empty()) {
          RANNC_ASSIGN(times, options_.measure(finished.plan));
        }
        if (!times) {
          refused_.insert(identity(plan));
          continue;
        }
        remember(finished, entries, *times);
        news = true;
      }
      for (const Entry& entry : entries) problem_.measured[entry.run] = known_.at(entry.program);
      measured_.push_back(plan);
    }
    return news;
  }

  bool is_measured(const StagePlan& plan) const {
    return std::any_of(measured_.begin(), measured_.end(),
                       [own = identity(plan)](const StagePlan& other) { return identity(other) == own; });
  }

  Result<PlannedModel> completed(const StagePlan& plan) const {
    PlannedModel finished;
    finished.problem = planned_.problem;
    finished.blocks = planned_.blocks;
    finished.stages = plan;
    mark_sharded(options_, finished.stages);
    RANNC_TRY(finish(options_, facts_, finished));
    return finished;
  }

  /// Returns the stages with one kind of device and their numbers of samples, in the order of the plan's stage times.
  std::vector<Entry> entries_of(const PlannedModel& finished) const {
    std::vector<Entry> entries;
    std::map<StageId, std::string> keys;
    for (const ir::StageTime& time : finished.plan.stage_times) {
      const PlannedStage& stage = finished.stages.stages[time.stage.index()];
      const uint32_t kind = kind_of(stage);
      if (!has_one_kind(stage, kind)) continue;
      std::string& key = keys[time.stage];
      if (key.empty()) key = stage_key(finished.plan, time.stage, roles_);
      const bool splits = parts_backward(finished.stages);
      entries.push_back(
          {{stage.first, stage.end, kind, time.samples, stage.recompute, splits}, {key, kind, time.samples, splits}});
    }
    return entries;
  }

  uint32_t kind_of(const PlannedStage& stage) const {
    return problem_.cluster.devices[stage.devices.front().index()].kind;
  }
  bool has_one_kind(const PlannedStage& stage, uint32_t kind) const {
    return std::all_of(stage.devices.begin(), stage.devices.end(),
                       [&](DeviceId device) { return problem_.cluster.devices[device.index()].kind == kind; });
  }

  /// The first measurement of a program counts.
  void remember(const PlannedModel& finished, const std::vector<Entry>& entries,
                const std::vector<ir::StageTime>& times) {
    RANNC_CHECK(times.size() == finished.plan.stage_times.size()) << "other stages were measured";
    size_t next = 0;
    for (const ir::StageTime& time : times) {
      if (next == entries.size() || entries[next].run.samples != time.samples ||
          entries[next].run.first != finished.stages.stages[time.stage.index()].first)
        continue;  // of several kinds
      known_.emplace(entries[next++].program,
                     StageRunTimes{static_cast<double>(time.forward_ns), static_cast<double>(time.backward_ns),
                                   static_cast<double>(time.weight_ns)});
    }
  }

  StageProblem fitted() const {
    StageProblem problem = problem_;
    problem.times = fitted_times(problem);
    return problem;
  }

  /// Returns the new ranking.
  Result<std::vector<StagePlan>> search_again() {
    Lap lap;
    const StageProblem problem = fitted();
    AutoOptions search = search_of(options_);
    search.rivals = AutoOptions::Rivals::kExcluded;
    search.starts = measured_;
    for (StagePlan& start : search.starts) start.notes.clear();
    RANNC_ASSIGN(const StageOutcome outcome, auto_planner(search)->plan(problem, options_.stop));
    planned_.times.stages += lap.ns();
    const auto* plan = std::get_if<StagePlan>(&outcome);
    return plan == nullptr ? std::vector<StagePlan>() : ranked(*plan);
  }

  /// Takes the best measured plan.
  Result<void> conclude(bool stands) {
    const StageProblem problem = fitted();
    PlanJudge judge(problem);
    std::optional<StagePlan> best;
    size_t chosen = 0;
    double first = 0;
    for (size_t i = 0; i < measured_.size(); ++i) {
      const JudgedPlan plan = judged(judge, measured_[i]);
      if (!plan) continue;
      if (identity(measured_[i]) == identity(planned_.stages)) first = plan->objective;
      if (best && !better(*plan, *best)) continue;
      best = *plan;
      chosen = i;
    }
    std::vector<std::string> notes = {report(stands)};
    if (best && identity(*best) != identity(planned_.stages)) {
      if (first > 0) {
        notes.push_back(
            fmt::format("measured stages: this plan takes {:.3f} ms with them, that of the prices of tasks "
                        "({}) {:.3f} ms",
                        best->objective / 1e6, brief(planned_.stages), first / 1e6));
      }
      RANNC_TRY(replace(measured_[chosen]));
    }
    planned_.stages.notes.insert(planned_.stages.notes.end(), notes.begin(), notes.end());
    return {};
  }

  std::string report(bool stands) const {
    const std::string extent = fmt::format("{} plan{} in {} round{} of the search", measured_.size(),
                                           measured_.size() == 1 ? "" : "s", rounds_, rounds_ == 1 ? "" : "s");
    if (stands) return fmt::format("measured stages: {}, after which the ranking stands", extent);
    return fmt::format("the stages of {} were measured, and the ranking still changes: the best measured plan is taken",
                       extent);
  }

  /// Replaces the plan by another, with all numbers at the prices of tasks.
  Result<void> replace(const StagePlan& plan) {
    PlanJudge judge(planned_.problem);
    JudgedPlan priced = judged(judge, plan);
    if (!priced) return {};  // its step exceeds the limit at the prices of tasks
    StagePlan stages = *std::move(priced);
    const StagePlan& before = planned_.stages;
    stages.planner = before.planner;
    stages.lower_bound = std::min(before.lower_bound, stages.objective);
    stages.bound_name = before.bound_name;
    stages.bottleneck = bottleneck_of(stages);
    stages.runners_up = before.runners_up;
    stages.runners_up.push_back({"prices of tasks: " + brief(before), before.objective, bottleneck_of(before)});
    stages.notes = before.notes;
    RANNC_ASSIGN(PlannedModel finished, completed(stages));
    finished.remarks = std::move(planned_.remarks);
    finished.times = planned_.times;
    planned_ = std::move(finished);
    return {};
  }

  PlanOptions options_;
  const ModelFacts& facts_;
  PlannedModel& planned_;
  StageProblem problem_;  // at the prices of tasks, with all measured stages
  std::vector<ir::GradientRole> roles_ = ir::gradient_roles(facts_.graph, ir::needs_gradient(facts_.graph));
  std::map<Program, StageRunTimes> known_;
  std::vector<StagePlan> measured_;  // in the order of their measurement
  std::set<std::string> refused_;    // identities of plans that cannot run
  uint32_t rounds_ = 0;
};

}  // namespace

Result<void> search_with_measured_stages(const PlanOptions& options, const ModelFacts& facts, PlannedModel& planned) {
  if (!options.measure || options.planner != "auto" || options.given || options.last ||
      options.objective == Objective::kPeakMemory || options.stop.stop_requested())
    return {};
  return MeasuredSearch(options, facts, planned).run();
}

}  // namespace rannc::partition
