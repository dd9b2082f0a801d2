#include "partition/stages/search/plan_trials.h"

#include <algorithm>

namespace rannc::partition {

bool PlanTrials::estimates(const StagePlan& plan) const {
  return !rules_.everything && plan.micro_batches >= kLong && problem_.objective == Objective::kStepTime;
}

bool PlanTrials::take(StagePlan& plan, JudgedPlan judged) {
  settle();
  if (!judged) return false;
  plan = *std::move(judged);
  return true;
}

bool PlanTrials::measured(StagePlan& plan, double beat) {
  return estimates(plan) ? take(plan, judge_.estimate(plan, beat)) : judged(plan, beat);
}

bool PlanTrials::by_stage(StagePlan& plan, double beat) {
  return take(plan, judge_.judge(plan, rules_.by_device ? kInfinity : beat));
}

bool PlanTrials::first_look(StagePlan& plan) {
  JudgedPlan judged = judge_.judge(plan);
  if (!judged) last_refusal_ = judged.why();
  return take(plan, std::move(judged));
}

bool PlanTrials::by_device(StagePlan& plan, double beat) {
  if (!rules_.by_device) return true;
  JudgedPlan judged = judge_.judge_by_device(plan, std::min(beat, contest_.least() * (1 + 1e-6)));
  if (!judged) last_refusal_ = judged.why();
  return take(plan, std::move(judged));
}

void PlanTrials::begin_share(size_t parts) {
  floor_ = left_ - left_ / parts;
  share_spent_ = false;
}

bool PlanTrials::can_afford() {
  if (left_ <= floor_ || interrupted()) share_spent_ = true;
  return !share_spent_;
}

void PlanTrials::settle() {
  const uint64_t spent = judge_.spent() - settled_;
  left_ -= std::min(left_, spent);
  settled_ += spent;
}

}  // namespace rannc::partition
