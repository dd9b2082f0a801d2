// The planner that chooses on the simulated timeline.
#include "partition/stages/auto.h"

#include <gtest/gtest.h>

#include "partition/stages/explain.h"
#include "partition/stages/judge.h"
#include "partition/stages/registry.h"
#include "tests/partition/stages/oracle.h"
#include "tests/partition/stages/random_problem.h"

namespace rannc::partition {
namespace {

using testing::RandomOptions;

/// Least simulated time over every plan of the oracle, which shares only the simulation with the planner.
std::optional<double> least_simulated(const StageProblem& problem, const std::vector<std::string>& schedules) {
  PlanJudge judge(problem);
  std::optional<double> least;
  StageProblem roomy = problem;  // the oracle's memory follows one discipline; the judge knows each schedule's
  roomy.in_flight = InFlight::kOneFOneB;
  for (DeviceKind& kind : roomy.cluster.kinds) kind.memory_bytes = 1ull << 60;
  testing::for_each_plan(roomy, [&](const std::vector<testing::OracleStage>& stages, uint64_t count, uint32_t copies) {
    if (copies > 1) return;
    StagePlan plan;
    plan.micro_batches = count;
    for (const auto& from : stages) {
      PlannedStage stage;
      stage.first = from.first;
      stage.end = from.end;
      stage.recompute = from.recompute;
      for (uint32_t d = from.from; d < from.to; ++d) stage.devices.push_back(DeviceId(d));
      plan.stages.push_back(stage);
    }
    for (const std::string& schedule : schedules) {
      plan.schedule = schedule;
      const auto time = judge.judge(plan);
      if (time && (!least || *time < *least)) least = time;
    }
  });
  return least;
}

void compare(uint64_t seed, int count, const RandomOptions& random_options) {
  AutoOptions options;
  options.rivals = AutoOptions::Rivals::kExcluded;
  options.schedules = {"1f1b", "dapple-b", "gpipe"};
  options.placement = AutoOptions::Placement::kKeep;
  options.exhaustive_plans = 100000;
  int feasible = 0;
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " instance " + std::to_string(i));
    std::mt19937_64 random(seed * 7'000'003 + static_cast<uint64_t>(i));
    StageProblem problem = testing::random_problem(random, random_options);
    if (problem.micro_batches.size() > 2) problem.micro_batches.resize(2);
    if (i % 8 != 0) problem.recompute = RecomputeRule::kNever;
    const auto outcome = auto_planner(options)->plan(problem);
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    const auto least = least_simulated(problem, options.schedules);
    const auto* plan = std::get_if<StagePlan>(&*outcome);
    ASSERT_EQ(plan != nullptr, least.has_value());
    if (plan == nullptr) continue;
    ++feasible;
    ASSERT_NEAR(plan->objective, *least, 1e-9 * std::max(1.0, *least)) << brief(*plan);
    ASSERT_LE(plan->lower_bound, plan->objective);
    // The analytic bound holds as well.
    PlanJudge judge(problem);
    ASSERT_LE(judge.lower_bound(), *least * (1 + 1e-9));
  }
  EXPECT_GE(feasible, count / 4);
}

TEST(AutoPlanner, EqualsExhaustiveSearchOnChains) { compare(1, 700, {.most_blocks = 4, .most_devices = 4}); }
TEST(AutoPlanner, EqualsExhaustiveSearchOnDagsUnderTightMemory) {
  compare(2, 700, {.most_blocks = 4, .most_devices = 4, .tight = true, .skips = true});
}
TEST(AutoPlanner, EqualsExhaustiveSearchOnUnequalClusters) {
  compare(3, 700, {.most_blocks = 4, .most_devices = 4, .unequal = true, .skips = true});
}

// Whatever another planner finds, under its own schedule, auto is at least as good.
TEST(AutoPlanner, NeverWorseThanAnyRival) {
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("instance " + std::to_string(i));
    std::mt19937_64 random(static_cast<uint64_t>(i) + 555);
    StageProblem problem = testing::random_problem(
        random, {.most_blocks = 14, .most_devices = 9, .unequal = i % 2 == 0, .tight = i % 3 == 0, .skips = true});
    const auto outcome = auto_planner()->plan(problem);
    const auto* chosen = std::get_if<StagePlan>(&*outcome);
    PlanJudge judge(problem);
    for (const std::string& name : rival_names()) {
      const auto rival = make_planner(name)->plan(problem);
      const auto* plan = std::get_if<StagePlan>(&*rival);
      if (plan == nullptr) continue;
      StagePlan judged = *plan;
      const auto time = judge.judge(judged);
      if (!time) continue;
      ASSERT_NE(chosen, nullptr) << name;
      EXPECT_LE(chosen->objective, *time * (1 + 1e-9)) << name;
    }
    EXPECT_TRUE(chosen == nullptr || chosen->lower_bound <= chosen->objective);
  }
}

// Without rivals, searching by moves comes close to the exhaustive answer.
TEST(AutoPlanner, MovesReachTheExhaustiveAnswerMostly) {
  AutoOptions exhaustive, moves;
  exhaustive.rivals = moves.rivals = AutoOptions::Rivals::kExcluded;
  exhaustive.schedules = moves.schedules = {"1f1b", "gpipe"};
  exhaustive.exhaustive_plans = 1'000'000;
  exhaustive.simulated_actions = 1'000'000'000;
  moves.exhaustive_plans = 0;
  int equal = 0, compared = 0;
  for (int i = 0; i < 60; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 9000);
    StageProblem problem = testing::random_problem(random, {.most_blocks = 7, .most_devices = 5});
    problem.recompute = RecomputeRule::kNever;
    problem.constraints = {};
    const auto best = auto_planner(exhaustive)->plan(problem);
    const auto found = auto_planner(moves)->plan(problem);
    const auto* a = std::get_if<StagePlan>(&*best);
    const auto* b = std::get_if<StagePlan>(&*found);
    ASSERT_TRUE(a != nullptr && b != nullptr);
    ++compared;
    EXPECT_GE(b->objective, a->objective * (1 - 1e-9));
    EXPECT_LE(b->objective, a->objective * 1.25);
    equal += b->objective <= a->objective * (1 + 1e-9);
  }
  EXPECT_GE(equal * 10, compared * 8);
}

TEST(AutoPlanner, PlacementNeverHurts) {
  int better = 0;
  for (int i = 0; i < 60; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 4321);
    const StageProblem problem =
        testing::random_problem(random, {.most_blocks = 6, .most_devices = 8, .unequal = true, .skips = true});
    AutoOptions keep;
    keep.placement = AutoOptions::Placement::kKeep;
    const auto kept = auto_planner(keep)->plan(problem);
    const auto placed = auto_planner()->plan(problem);
    const auto* a = std::get_if<StagePlan>(&*kept);
    const auto* b = std::get_if<StagePlan>(&*placed);
    ASSERT_EQ(a == nullptr, b == nullptr);
    if (a == nullptr) continue;
    EXPECT_LE(b->objective, a->objective * (1 + 1e-9));
    better += b->objective < a->objective * (1 - 1e-6);
  }
  EXPECT_GE(better, 1);
}

// The text names the bottleneck, the bound, the losers and what would help.
TEST(Explain, NamesBoundBottleneckLosersAndRemedies) {
  std::mt19937_64 random(12);
  StageProblem problem = testing::random_problem(random, {.most_blocks = 8, .most_devices = 4});
  problem.constraints = {};
  const auto planner = auto_planner();
  const auto outcome = planner->plan(problem);
  const std::string text = explain(std::get<StagePlan>(*outcome), try_remedies(*planner, problem));
  for (const char* word : {"plan by auto", "lower bound", "gap", "bottleneck: stage", "lost: ", "what would help",
                           "links twice as fast", "twice the memory", "one more device"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is missing in\n" << text;
  }
  problem.constraints.memory_bytes = 1;
  const auto none = planner->plan(problem);
  EXPECT_NE(explain(std::get<Infeasible>(*none)).find("missing: "), std::string::npos);
}

TEST(AutoPlanner, SamePlanOnEveryRun) {
  std::mt19937_64 random(99);
  const StageProblem problem = testing::random_problem(random, {.most_blocks = 12, .most_devices = 8, .skips = true});
  EXPECT_EQ(*auto_planner()->plan(problem), *auto_planner()->plan(problem));
}

}  // namespace
}  // namespace rannc::partition
