// The parts of the search of planner auto, each alone: trials within a budget, the contest, the local search.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "partition/schedule/family.h"
#include "partition/stages/search/auto.h"
#include "partition/stages/search/local_search.h"
#include "tests/partition/stages/support/judging.h"
#include "tests/partition/stages/support/oracle.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 40;

StageProblem problem_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  return testing::random_problem(random, {.most_blocks = 5, .most_devices = 4, .skips = true});
}

std::vector<StagePlan> plans_of(const StageProblem& problem, size_t most) {
  std::vector<StagePlan> plans;
  testing::for_each_roomy_plan(problem, [&](StagePlan plan) {
    plan.schedule = "1f1b";
    if (plans.size() < most) plans.push_back(std::move(plan));
  });
  return plans;
}

/// A problem with several plans that fit.
StageProblem roomy_problem() {
  for (uint64_t seed = 0;; ++seed) {
    const StageProblem problem = problem_of(seed);
    const auto plans = plans_of(problem, 8);
    const auto fits = [&](StagePlan plan) { return testing::judge(problem, plan).has_value(); };
    if (plans.size() == 8 && std::all_of(plans.begin(), plans.end(), fits)) return problem;
  }
}

TEST(PlanTrials, GiveWhatTheJudgeGives) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const StageProblem problem = problem_of(seed);
    const PlanContest contest(false);
    PlanTrials trials(problem, contest, {.everything = true}, kPlenty, {});
    for (StagePlan plan : plans_of(problem, 30)) {
      StagePlan judged = plan;
      const auto expected = testing::judge(problem, judged);
      ASSERT_EQ(trials.judged(plan), expected.has_value());
      if (!expected) continue;
      EXPECT_EQ(plan, judged);
    }
  }
}

TEST(PlanTrials, RememberWhyAPlanWasRefused) {
  StageProblem problem = problem_of(3);
  StagePlan plan = plans_of(problem, 1).front();
  problem.constraints.memory_bytes = 1;
  const PlanContest contest(false);
  PlanTrials trials(problem, contest, {}, kPlenty, {});
  const StagePlan before = plan;
  EXPECT_EQ(trials.last_refusal(), "");
  EXPECT_FALSE(trials.first_look(plan));
  EXPECT_NE(trials.last_refusal().find("bytes of 1"), std::string::npos) << trials.last_refusal();
  EXPECT_EQ(plan, before) << "a refused plan stays as it was";
}

TEST(PlanTrials, SpendTheirBudgetAndShareIt) {
  const StageProblem problem = roomy_problem();
  const PlanContest contest(false);
  const auto plans = plans_of(problem, 8);
  PlanTrials all(problem, contest, {}, kPlenty, {});
  for (StagePlan plan : plans) all.by_stage(plan);
  const uint64_t needed = all.judge().spent();
  ASSERT_GT(needed, 0U);
  PlanTrials half(problem, contest, {}, needed, {});
  half.begin_share(2);
  size_t tried = 0;
  while (tried < plans.size() && half.can_afford()) {
    StagePlan plan = plans[tried++];
    half.by_stage(plan);
  }
  EXPECT_LT(tried, plans.size()) << "a share ends before the budget does";
  EXPECT_TRUE(half.share_spent());
  EXPECT_FALSE(half.spent());
  half.end_share();
  while (tried < plans.size()) {
    ASSERT_TRUE(half.can_afford());
    StagePlan plan = plans[tried++];
    half.by_stage(plan);
  }
  EXPECT_TRUE(half.spent());
  EXPECT_FALSE(half.can_afford());
}

TEST(PlanTrials, AStopEndsThem) {
  const StageProblem problem = problem_of(5);
  const PlanContest contest(false);
  std::stop_source stop;
  PlanTrials trials(problem, contest, {}, kPlenty, stop.get_token());
  EXPECT_TRUE(trials.can_afford());
  stop.request_stop();
  EXPECT_FALSE(trials.can_afford());
  EXPECT_TRUE(trials.interrupted());
}

TEST(PlanContest, KeepsTheBest) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const StageProblem problem = problem_of(seed);
    PlanContest contest(false);
    EXPECT_EQ(contest.least(), kInfinity);
    std::optional<StagePlan> best;
    for (StagePlan plan : plans_of(problem, 60)) {
      if (!testing::judge(problem, plan)) continue;
      const bool leads = !best || better(plan, *best);
      if (leads) best = plan;
      EXPECT_EQ(contest.offer(plan, "test"), leads);
      contest.keep_start(plan);
    }
    if (!best) continue;
    EXPECT_EQ(contest.best()->plan, *best);
    const auto starts = contest.starts(3);
    ASSERT_FALSE(starts.empty());
    EXPECT_LE(starts.size(), 3U);
    EXPECT_EQ(starts.front().objective, best->objective);
    EXPECT_TRUE(std::is_sorted(starts.begin(), starts.end(), better));
  }
}

// A local search never ends worse than it starts, and at a plan that no further ascent improves.
TEST(LocalSearch, EndsAtAPlanThatNoMoveImproves) {
  const std::vector<std::string> schedules = {"1f1b", "gpipe"};
  int improved = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const StageProblem problem = problem_of(seed);
    const auto counts = micro_batch_candidates(problem);
    PlanContest contest(false);
    PlanTrials trials(problem, contest, {}, kPlenty, {});
    LocalSearch search(problem, schedules, counts, trials, contest);
    for (StagePlan plan : plans_of(problem, 3)) {
      if (!testing::judge(problem, plan)) continue;
      const double before = plan.objective;
      search.ascend(plan);
      EXPECT_LE(plan.objective, before);
      improved += plan.objective < before;
      const StagePlan once = plan;
      search.ascend(plan);
      EXPECT_EQ(plan, once);
      EXPECT_TRUE(!contest.best() || contest.least() <= plan.objective * (1 + 1e-9));
    }
  }
  EXPECT_GT(improved, 5);
}

TEST(LocalSearch, StopsWhenTheBudgetIsSpent) {
  const StageProblem problem = roomy_problem();
  const std::vector<std::string> schedules = {"1f1b"};
  const auto counts = micro_batch_candidates(problem);
  PlanContest contest(false);
  PlanTrials trials(problem, contest, {}, 0, {});
  LocalSearch search(problem, schedules, counts, trials, contest);
  StagePlan plan = plans_of(problem, 1).front();
  const StagePlan before = plan;
  search.ascend(plan);
  EXPECT_EQ(plan, before);
  std::mt19937_64 random(1);
  EXPECT_FALSE(search.search_beside(plan, 2, random));
}

// Micro-batch counts above the mini-batch leave no candidate: a reason, whatever the objective and the size.
TEST(AutoSearch, WithoutACandidateCountThereIsNoPlan) {
  for (const Objective objective : {Objective::kStepTime, Objective::kPeriod}) {
    for (const uint64_t exhaustive : {uint64_t{0}, uint64_t{100'000}}) {
      StageProblem problem = roomy_problem();
      problem.objective = objective;
      problem.micro_batches = {problem.mini_batch + 1};
      AutoOptions options;
      options.exhaustive_plans = exhaustive;
      const auto outcome = auto_planner(options)->plan(problem);
      ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
      const auto* none = std::get_if<Infeasible>(&*outcome);
      ASSERT_NE(none, nullptr);
      EXPECT_NE(none->reason.find("micro-batch"), std::string::npos) << none->reason;
    }
  }
}

}  // namespace
}  // namespace rannc::partition
