/// Judges plans that are given instead of searched for.
#pragma once

#include <stop_token>

#include "partition/stages/judge/judge.h"
#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Returns the plan with these stages, devices, recompute, micro-batches, schedule, warm-up depths and planner. All
/// numbers are computed anew: times, memory, objective, bound and bottleneck. Runners-up and notes are dropped.
/// `Infeasible` if the plan does not fit memory or breaks a limit. Errors: rules V1 to V4 (`verify_plan`), an unknown
/// schedule, or one that does not suit the stages.
Result<StageOutcome> judge_given(const StageProblem& problem, const StagePlan& given, std::stop_token stop = {});

/// Returns the plan under schedule `found`, with rows that are searched for its stages, judged anew. Refused without
/// such rows.
JudgedPlan with_found_rows(const StageProblem& problem, StagePlan plan);

/// Adds times, memory, objective, bound and bottleneck to stages with rows of their own: those of their schedule, or of
/// a usual one if only the rows define it. Stages that the judge refuses, because it knows their memory approximately,
/// are returned as they are.
StagePlan price_given(const StageProblem& problem, StagePlan stages);

}  // namespace rannc::partition
