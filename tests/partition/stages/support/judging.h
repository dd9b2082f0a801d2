/// Judgements of plans, for tests that read both the objective and the judged plan.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "partition/stages/judge/judge.h"

namespace rannc::partition::testing {

/// Replaces the plan by the judged one and returns its objective; nothing if it was refused. `why` receives the reason.
inline std::optional<double> take(JudgedPlan judged, StagePlan& plan, std::string* why = nullptr) {
  if (!judged && why != nullptr) *why = judged.why();
  if (!judged) return std::nullopt;
  plan = *std::move(judged);
  return plan.objective;
}

inline std::optional<double> judge(PlanJudge& judge, StagePlan& plan, double beat = kInfinity,
                                   std::string* why = nullptr) {
  return take(judge.judge(plan, beat), plan, why);
}

inline std::optional<double> judge(const StageProblem& problem, StagePlan& plan, std::string* why = nullptr) {
  PlanJudge fresh(problem);
  return judge(fresh, plan, kInfinity, why);
}

/// First stage by stage, then device by device.
inline std::optional<double> judge_as_run(PlanJudge& judge, StagePlan& plan, std::string* why = nullptr) {
  if (!testing::judge(judge, plan, kInfinity, why)) return std::nullopt;
  return take(judge.judge_by_device(plan), plan, why);
}

}  // namespace rannc::partition::testing
