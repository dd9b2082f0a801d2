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
