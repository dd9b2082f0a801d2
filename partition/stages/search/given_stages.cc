#include "partition/stages/search/given_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/schedule/lower_schedule.h"
#include "partition/schedule/family.h"
#include "partition/schedule/make_schedule.h"
#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/planner.h"
#include "partition/stages/problem/places.h"

namespace rannc::partition {

namespace {

/// The decisions of a plan without any numbers.
StagePlan decisions_of(const StagePlan& plan) {
  StagePlan bare;
  bare.planner = plan.planner;
  bare.micro_batches = plan.micro_batches;
  bare.schedule = plan.schedule;
  bare.warm_up = plan.warm_up;
  bare.pattern = plan.pattern;
  for (const PlannedStage& stage : plan.stages) {
    bare.stages.push_back({stage.first, stage.end, stage.devices, stage.recompute});
  }
  return bare;
}

/// The plan's stages as a chain on their places.
ir::PipelineShape shape_of_places(const StagePlan& plan) {
  const StagePlaces places = places_of(plan);
  ir::PipelineShape shape =
      ir::chain_shape(static_cast<uint32_t>(plan.stages.size()), static_cast<uint32_t>(plan.micro_batches));
  shape.devices = places.count();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    shape.stages[s].devices = {DeviceId(places.of_stage[s])};
    shape.stages[s].recompute = plan.stages[s].recompute;
  }
  return shape;
}

/// Why the judge cannot simulate the plan's schedule; empty: it can.
std::string unsuited(const StagePlan& plan) {
  if (find_schedule(plan.schedule) == nullptr) {
    return fmt::format("unknown schedule '{}'; the schedules are {}", plan.schedule, fmt::join(schedule_names(), ", "));
  }
  if (schedule_needs(plan.schedule, ScheduleFamily::Needs::kTable)) {
    return fmt::format("schedule {}: a profile has no hand-written schedule", plan.schedule);
  }
  const bool found = schedule_needs(plan.schedule, ScheduleFamily::Needs::kPattern);
  if (!found && !plan.pattern.empty()) return fmt::format("schedule {} has no pattern of its own", plan.schedule);
  if (found) {
    const auto rows = make_schedule(shape_of_places(plan), {.name = plan.schedule, .pattern = plan.pattern});
    if (!rows.ok()) return rows.diagnostic().message;
    const auto lowered = ir::lower_schedule(shape_of_places(plan), *rows);
    if (!lowered.ok()) return lowered.diagnostic().message;
  }
  if (!suits(plan.schedule, plan)) {
    return fmt::format("schedule {} does not suit stages {}", plan.schedule, brief(plan));
  }
  return {};
}

void use_usual_schedule(StagePlan& plan) {
  plan.schedule = places_of(plan).shared() ? "interleaved" : "1f1b";
  plan.warm_up.clear();
  plan.pattern = {};
}

Result<void> check_schedule(const StagePlan& plan) {
  if (std::string why = unsuited(plan); !why.empty()) return error(std::move(why));
  if (!plan.warm_up.empty() && plan.warm_up.size() != plan.stages.size()) {
    return error(fmt::format("{} warm-up depths for {} stages", plan.warm_up.size(), plan.stages.size()));
  }
  return {};
}

class GivenStages : public StagePlanner {
 public:
  explicit GivenStages(StagePlan given) : given_(std::move(given)) {}
  std::string name() const override { return given_.planner; }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token) const override {
    PlanJudge judge(problem);
    JudgedPlan found = judge.judge(given_);
    if (found) found = judge.judge_by_device(*std::move(found));
    if (!found) return Infeasible{.reason = "the given plan does not hold: " + found.why()};
    StagePlan plan = *std::move(found);
    plan.bottleneck = bottleneck_of(plan);
    return plan;
  }

  StagePlan given_;
};

}  // namespace

Result<StageOutcome> judge_given(const StageProblem& problem, const StagePlan& given, std::stop_token stop) {
  const StagePlan bare = decisions_of(given);
  RANNC_TRY(verify_plan(problem, bare));
  RANNC_TRY(check_schedule(bare));
  return GivenStages(bare).plan(problem, std::move(stop));
}

JudgedPlan with_found_rows(const StageProblem& problem, StagePlan plan) {
  constexpr uint64_t kActions = 20'000'000;
  PlanJudge judge(problem);
  if (!unsuited(plan).empty()) use_usual_schedule(plan);
  const JudgedPlan judged = judge.judge(std::move(plan));
  return judged ? judge.find_rows(*judged, kActions) : judged;
}

StagePlan price_given(const StageProblem& problem, StagePlan stages) {
  PlanJudge judge(problem);
  StagePlan priced = stages;
  if (!unsuited(stages).empty()) use_usual_schedule(priced);
  const JudgedPlan found = suits(priced.schedule, priced) ? judge.judge(std::move(priced)) : JudgedPlan(Refusal());
  if (!found) return stages;
  stages.objective_name = found->objective_name;
  stages.objective = found->objective;
  stages.step_ns = found->step_ns;
  stages.stages = found->stages;
  stages.bottleneck = bottleneck_of(stages);
  const Bound bound = judge.lower_bound({.shared_devices = places_of(stages).shared()});
  stages.lower_bound = bound.value;
  stages.bound_name = bound.argument;
  return stages;
}

}  // namespace rannc::partition
