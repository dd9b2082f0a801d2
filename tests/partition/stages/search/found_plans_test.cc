/// Plans under schedule `found`: never worse, within the bound, saved and judged again as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partition/formats/stage_plan_json.h"
#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/problem/places.h"
#include "partition/stages/registry.h"
#include "partition/stages/search/auto.h"
#include "partition/stages/search/given_stages.h"
#include "tests/partition/stages/support/random_problem.h"
#include "tests/support/tier.h"

namespace rannc::partition {
namespace {

using ::rannc::testing::cases_of;
using ::testing::HasSubstr;

std::vector<std::string> named_schedules(const PlanDemands& demands) {
  std::vector<std::string> names = default_schedules(demands);
  std::erase(names, "found");
  return names;
}

std::optional<StagePlan> plan_of(const StageProblem& problem, std::vector<std::string> schedules) {
  AutoOptions options;
  options.rivals = AutoOptions::Rivals::kExcluded;
  options.schedules = std::move(schedules);
  const StageOutcome outcome = auto_planner(options)->plan(problem).value();
  const auto* plan = std::get_if<StagePlan>(&outcome);
  return plan != nullptr ? std::optional(*plan) : std::nullopt;
}

StageProblem problem_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  StageProblem problem = testing::random_problem(
      random, {.most_blocks = 6, .most_devices = 4, .tight = seed % 3 == 0, .skips = seed % 2 == 0});
  problem.parts_backward = seed % 5 != 0;
  if (seed % 2 != 0) problem.constraints.stages = std::min(problem.blocks, problem.cluster.size());
  return problem;
}

/// A pipeline of unequal stages whose passes take F, I and W of 1, 1.2 and 0.8.
StageProblem pipeline(uint32_t stages, uint64_t micro_batches) {
  StageProblem problem;
  problem.blocks = stages;
  std::vector<double> forward, backward, weight;
  for (uint32_t s = 0; s < stages; ++s) {
    const double scale = s % 2 == 0 ? 1e6 : 0.8e6;
    forward.push_back(scale);
    backward.push_back(2 * scale);
    weight.push_back(0.8 * scale);
  }
  problem.times.push_back({{1}, {forward}, {backward}, {weight}});
  problem.parameter_bytes.assign(stages, 10);
  problem.stashed_bytes_per_sample.assign(stages, 1e9);
  problem.temporary_bytes_per_sample.assign(stages, 0);
  for (uint32_t b = 1; b < stages; ++b) problem.values.push_back({b - 1, {b}, 4e6, 0, true});
  problem.cluster = preset_cluster("flat:" + std::to_string(stages)).value();
  problem.cluster.kinds[0].memory_bytes = (stages + 2) * 1'000'000'000ull;  // between those of zb-h1 and zb-h2
  problem.mini_batch = micro_batches;
  problem.micro_batches = {micro_batches};
  problem.parts_backward = true;
  problem.constraints.stages = stages;
  return problem;
}

TEST(FoundPlans, AreNeverWorseThanThoseUnderNamedSchedules) {
  uint64_t better = 0, feasible = 0;
  const auto count = cases_of<uint64_t>(150);
  for (uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE(seed);
    const StageProblem problem = problem_of(seed);
    const auto named = plan_of(problem, named_schedules(problem)), both = plan_of(problem, {});
    ASSERT_EQ(named.has_value(), both.has_value());
    if (!named) continue;
    ++feasible;
    EXPECT_LE(both->objective, named->objective * (1 + 1e-9)) << both->schedule << " after " << named->schedule;
    EXPECT_LE(both->lower_bound, both->objective);
    EXPECT_NE(both->bound_name, "exhaustive search over the named schedules");
    EXPECT_EQ(both->schedule == "found", !both->pattern.empty());
    better += both->schedule == "found";
  }
  EXPECT_GT(feasible, 2 * count / 3);
  EXPECT_GT(better, count / 30);
}

/// Plans whose stages are moved under rows of their own, with so many simulated actions.
std::optional<StagePlan> moved(const StageProblem& problem, uint64_t actions) {
  AutoOptions options;
  options.rivals = AutoOptions::Rivals::kExcluded;
  options.found_moves_actions = actions;
  const StageOutcome outcome = auto_planner(options)->plan(problem).value();
  const auto* plan = std::get_if<StagePlan>(&outcome);
  return plan != nullptr ? std::optional(*plan) : std::nullopt;
}

/// A chain of uneven blocks on one device each, with memory between that of zb-h1 and zb-h2 and costly messages.
StageProblem uneven_chain(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() % 1000) / 1000;
  };
  const uint32_t stages = 3 + seed % 3, blocks = 4 * stages;
  StageProblem problem = pipeline(blocks, 2 * stages + seed % 4);
  problem.cluster = preset_cluster("flat:" + std::to_string(stages + seed % 2)).value();
  problem.cluster.kinds[0].memory_bytes = static_cast<uint64_t>(between(1.2, 2.2) * 4 * stages) * 1'000'000'000ull;
  problem.cluster.between = {between(1e9, 1e11), between(0, 3e5)};
  for (ClusterNode& node : problem.cluster.nodes) node.inside = problem.cluster.between;
  TimeTable& times = problem.times[0];
  for (uint32_t b = 0; b < blocks; ++b) {
    const double scale = between(0.3e6, 1e6), split = between(0.3, 0.6);
    times.forward[0][b] = scale;
    times.backward[0][b] = 2 * scale;
    times.weight_gradient[0][b] = 2 * split * scale;
  }
  if (seed % 3 == 0) problem.recompute = RecomputeRule::kChoose;
  problem.constraints.stages = stages;
  return problem;
}

TEST(FoundPlans, MovesUnderRowsNeverLose) {
  const auto count = cases_of<uint64_t>(50);
  uint64_t feasible = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE(seed);
    const StageProblem problem = seed % 2 == 0 ? problem_of(seed) : uneven_chain(seed);
    const auto without = moved(problem, 0), with = moved(problem, AutoOptions().found_moves_actions);
    ASSERT_EQ(without.has_value(), with.has_value());
    if (!with) continue;
    ++feasible;
    EXPECT_LE(with->objective, without->objective * (1 + 1e-9));
    EXPECT_LE(with->lower_bound, with->objective);
  }
  EXPECT_GT(feasible, 4 * count / 5);
}

TEST(FoundPlans, MovesUnderRowsFindOtherCuts) {
  for (const uint64_t seed : {132, 168, 213, 291}) {
    SCOPED_TRACE(seed);
    const StageProblem problem = uneven_chain(seed);
    const StagePlan without = moved(problem, 0).value();
    const StagePlan with = moved(problem, AutoOptions().found_moves_actions).value();
    EXPECT_LT(with.objective, 0.99 * without.objective);
    EXPECT_NE(brief(with), brief(without));
    EXPECT_EQ(with, moved(problem, AutoOptions().found_moves_actions)) << "deterministic";
  }
}

// The bound of a search over named schedules is its own result, which found rows may beat.
TEST(FoundPlans, LeaveExhaustiveSearchesOfNamedSchedulesExact) {
  const StageProblem problem = pipeline(3, 6);
  const StagePlan named = plan_of(problem, named_schedules(problem)).value();
  EXPECT_EQ(named.bound_name, "exhaustive search over the named schedules");
  EXPECT_EQ(named.lower_bound, named.objective);
  const StagePlan found = plan_of(problem, {"found"}).value();
  EXPECT_EQ(found.schedule, "found");
  EXPECT_LT(found.objective, named.objective * (1 - 1e-3));
  EXPECT_LE(found.lower_bound, found.objective);
}

TEST(FoundPlans, AreSavedAndJudgedAgain) {
  for (const uint32_t stages : {2, 3, 4}) {
    const StageProblem problem = pipeline(stages, 8);
    const StagePlan plan = plan_of(problem, {"found"}).value();
    const SavedStagePlan saved = read_stage_plan(write_stage_plan(plan), "plan.json").value();
    StagePlan alone = plan;
    alone.finalists.clear();
    EXPECT_EQ(saved.plan, alone);
    const StageOutcome outcome = judge_given(problem, saved.plan).value();
    const auto& again = std::get<StagePlan>(outcome);
    EXPECT_EQ(again.pattern, plan.pattern);
    EXPECT_EQ(again.step_ns, plan.step_ns);
    PlanJudge judge(problem);
    EXPECT_EQ(ir::digest(judge.rows(again).value()), ir::digest(judge.rows(plan).value()));
  }
}

TEST(FoundPlans, AreEstimatedFromFewerMicroBatches) {
  const StagePlan small = plan_of(pipeline(3, 16), {"found"}).value();
  StageProblem problem = pipeline(3, 2048);
  StagePlan plan = small;
  plan.micro_batches = 2048;
  PlanJudge judge(problem);
  const JudgedPlan exact = judge.judge(plan), estimate = judge.estimate(plan);
  ASSERT_TRUE(exact) << exact.why();
  ASSERT_TRUE(estimate) << estimate.why();
  EXPECT_NEAR(estimate->step_ns, exact->step_ns, 0.01 * exact->step_ns);
}

TEST(FoundPlans, OfOtherPlannersHaveTheirStages) {
  StageProblem problem = pipeline(3, 8);
  problem.constraints = {};
  problem.cluster.kinds[0].memory_bytes = 40'000'000'000;
  for (const char* name : {"gpipe", "rannc", "dapple"}) {
    SCOPED_TRACE(name);
    const StageOutcome outcome = make_planner(name)->plan(problem).value();
    const auto& plan = std::get<StagePlan>(outcome);
    const JudgedPlan found = with_found_rows(problem, plan);
    ASSERT_TRUE(found) << found.why();
    EXPECT_EQ(found->schedule, "found");
    EXPECT_EQ(brief(*found), brief(plan));
    PlanJudge judge(problem);
    const JudgedPlan own = judge.judge_by_device(*judge.judge(plan));
    EXPECT_LE(found->step_ns, own->step_ns * (1 + 1e-9));
  }
}

TEST(FoundPlans, OfOtherStagesAreRefused) {
  const StageProblem problem = pipeline(3, 8);
  const StagePlan plan = plan_of(problem, {"found"}).value();
  const auto why = [&](const char* schedule, const char* pattern) {
    StagePlan other = plan;
    other.schedule = schedule;
    other.pattern = *pattern == 0 ? SchedulePattern() : parse_pattern(pattern).value();
    const auto judged = judge_given(problem, other);
    return judged.ok() ? "taken" : judged.diagnostic().message;
  };
  EXPECT_EQ(why("found", "F0 F0 [F0 B0]* B0 B0; F1 [F1 B1]* B1; [F2 B2]*"), "taken");
  EXPECT_THAT(why("found", ""), HasSubstr("schedule found has no rows for these stages"));
  EXPECT_THAT(why("found", "[F0 B0]*; [F1 B1]*"), HasSubstr("no row with stages 2"));
  EXPECT_THAT(why("found", "[F0 F1 B1 B0]*; [F2 B2]*"), HasSubstr("no row with stages 0"));
  EXPECT_THAT(why("found", "[F0 B0]*; F1 [F1 B1]* B1; F2 F2 [F2 B2]* B2 B2"), HasSubstr("waits for ever"));
  EXPECT_THAT(why("1f1b", "[F0 B0]*; [F1 B1]*; [F2 B2]*"), HasSubstr("schedule 1f1b has no pattern of its own"));
}

// No named schedule is as fast, so that only found rows meet the limit.
TEST(FoundPlans, MeetATimeLimitThatNamedSchedulesMiss) {
  StageProblem problem = pipeline(3, 6);
  const double found = plan_of(problem, {})->step_ns;
  const double named = plan_of(problem, named_schedules(problem))->step_ns;
  ASSERT_LT(found, named);
  problem.step_limit_ns = (found + named) / 2;
  for (const Objective objective : {Objective::kStepTime, Objective::kPeakMemory}) {
    problem.objective = objective;
    EXPECT_FALSE(plan_of(problem, named_schedules(problem)));
    const auto plan = plan_of(problem, {});
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->schedule, "found");
    EXPECT_LE(plan->step_ns, *problem.step_limit_ns);
    EXPECT_LE(plan->lower_bound, plan->objective);
  }
}

}  // namespace
}  // namespace rannc::partition
