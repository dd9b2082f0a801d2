#include "partition/stages/search/auto.h"

#include <algorithm>
#include <utility>

#include "partition/schedule/family.h"
#include "partition/stages/search/arrangements.h"
#include "partition/stages/search/auto_search.h"

namespace rannc::partition {
namespace {

const std::string kFound = "found";

bool splits_backward(const std::string& schedule) {
  const ScheduleFamily* family = find_schedule(schedule);
  return family != nullptr && family->splits_backward;
}

bool shares_devices(const std::string& schedule) {
  const ScheduleFamily* family = find_schedule(schedule);
  return family != nullptr && family->layout != StageLayout::kOnePerRank && family->layout != StageLayout::kAny;
}

/// Stages that may share a device where the others are tried first, and where nothing fits.
constexpr uint32_t kShared = 2, kMostShared = 4;

/// Schedules that hold few micro-batches where memory is short. With them, a plan exists if one exists for one
/// micro-batch at a time.
std::vector<std::string> lean_schedules(const PlanDemands& demands) {
  const StageConstraints& given = demands.constraints;
  // A demand on the stages alone means stages with devices of their own.
  if ((given.stages || !given.replicas.empty()) && !given.stages_per_device) return {"latency"};
  return {"latency", "periodic", "serial"};
}

/// Whether `a` misses the memory by less.
bool is_closer(const StageOutcome& a, const StageOutcome& b) {
  const double missing = std::get<Infeasible>(a).missing_bytes;
  return missing > 0 && missing < std::get<Infeasible>(b).missing_bytes;
}

class AutoPlanner final : public StagePlanner {
 public:
  explicit AutoPlanner(AutoOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "auto"; }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token stop) const override {
    const std::vector<std::string> allowed = schedules_for(problem);
    const bool has_found = std::find(allowed.begin(), allowed.end(), kFound) != allowed.end();
    const FoundRows found = !has_found            ? FoundRows::kNever
                            : allowed.size() == 1 ? FoundRows::kRequired
                                                  : FoundRows::kAllowed;
    StageOutcome outcome = options_.refused ? *options_.refused : search_within_limit(problem, found, stop);
    const bool by_name = !options_.schedules.empty() && found != FoundRows::kRequired;
    if (std::holds_alternative<StagePlan>(outcome) || by_name || options_.lean == AutoOptions::Lean::kNever)
      return outcome;
    return search_lean(problem, found, std::move(outcome), std::move(stop));
  }

  /// Searches plans that hold as little as possible. Returns `outcome` if there is none either and it is closer.
  StageOutcome search_lean(StageProblem problem, FoundRows found, StageOutcome outcome, std::stop_token stop) const {
    AutoOptions options = options_;
    options.rivals = AutoOptions::Rivals::kExcluded;
    options.schedules = lean_schedules(problem);
    problem.in_flight = InFlight::kOne;
    const bool any_number = !problem.constraints.stages_per_device && options.schedules.size() > 1;
    for (uint32_t shared = kShared; shared <= kMostShared && !stop.stop_requested(); ++shared) {
      if (shared > kShared) problem.constraints.stages_per_device = shared;
      StageOutcome lean = partition::auto_search(problem, options, found, stop);
      if (auto* plan = std::get_if<StagePlan>(&lean)) {
        plan->notes.push_back(
            "no plan meets the demands under the schedules that are tried first: this one is of those that hold least");
        return lean;
      }
      if (shared == kShared && is_closer(lean, outcome)) outcome = std::move(lean);
      if (!any_number) break;
    }
    return outcome;
  }

  StageOutcome search_within_limit(const StageProblem& problem, FoundRows found, std::stop_token stop) const {
    StageOutcome outcome = search(problem, found, stop);
    if (found == FoundRows::kNever || !problem.step_limit_ns || std::holds_alternative<StagePlan>(outcome))
      return outcome;
    // Rows that are searched may meet a time limit that no named schedule does.
    StageProblem fastest = problem;
    fastest.step_limit_ns.reset();
    fastest.objective = Objective::kStepTime;
    const StageOutcome other = search(fastest, found, std::move(stop));
    const auto* plan = std::get_if<StagePlan>(&other);
    if (plan == nullptr || plan->step_ns > *problem.step_limit_ns) return outcome;
    fastest.objective = problem.objective;
    StagePlan within = *plan;
    if (problem.objective != Objective::kStepTime) {
      PlanJudge judge(fastest);
      JudgedPlan judged = judge.judge(*plan);
      if (judged) judged = judge.judge_by_device(*judged);
      if (!judged) return outcome;
      within = *std::move(judged);
      const bool shared = most_stages_per_device(problem) > 1;
      Bound bound = judge.lower_bound({.enough = within.objective, .shared_devices = shared});
      within.lower_bound = std::min(bound.value, within.objective);
      within.bound_name = std::move(bound.argument);
      within.runners_up.clear();
    }
    return within;
  }

  StageOutcome search(const StageProblem& problem, FoundRows found, std::stop_token stop) const {
    AutoOptions options = options_;
    options.schedules = named_schedules_for(problem);
    const bool parts = (found != FoundRows::kNever && problem.parts_backward) ||
                       std::any_of(options.schedules.begin(), options.schedules.end(), splits_backward);
    if (parts) return auto_search(problem, options, found, std::move(stop));
    // No allowed schedule splits the backward pass, so the bound need not allow for it.
    StageProblem whole = problem;
    for (TimeTable& table : whole.times) table.weight_gradient.clear();
    return auto_search(whole, options, found, std::move(stop));
  }
  uint32_t most_stages_per_device(const StageProblem& problem) const override {
    return partition::most_stages_per_device(arrangements(problem, named_schedules_for(problem)));
  }
  std::vector<std::string> schedules_for(const StageProblem& problem) const {
    return options_.schedules.empty() ? default_schedules(problem) : options_.schedules;
  }

  /// The schedules under which plans are searched.
  std::vector<std::string> named_schedules_for(const StageProblem& problem) const {
    std::vector<std::string> names = schedules_for(problem);
    if (names == std::vector<std::string>{kFound}) names = default_schedules(problem);
    std::erase(names, kFound);
    return names;
  }

  AutoOptions options_;
};

}  // namespace

std::vector<std::string> default_schedules(const PlanDemands& demands) {
  std::vector<std::string> names = schedules_of_auto();
  if (!demands.parts_backward) std::erase_if(names, splits_backward);
  // A demand on the stages alone means stages with devices of their own.
  const StageConstraints& given = demands.constraints;
  if ((given.stages || !given.replicas.empty()) && !given.stages_per_device) std::erase_if(names, shares_devices);
  return names;
}

std::unique_ptr<StagePlanner> auto_planner(AutoOptions options) {
  return std::make_unique<AutoPlanner>(std::move(options));
}

}  // namespace rannc::partition
