// Searches of stages end where they are asked to, or where their budget ends, with a plan and a bound that holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stop_token>

#include "partition/stages/search/auto.h"
#include "partition/stages/search/exact.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

std::stop_token stopped() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

bool reports(const StagePlan& plan, const char* what) {
  return std::any_of(plan.notes.begin(), plan.notes.end(),
                     [&](const std::string& note) { return note.find(what) != std::string::npos; });
}

/// How many early plans are worse than the whole search's; none is better, and their bounds hold for it too.
class Comparison {
 public:
  void add(const Result<StageOutcome>& early, const Result<StageOutcome>& whole, const char* note) {
    const auto *a = std::get_if<StagePlan>(&*early), *b = std::get_if<StagePlan>(&*whole);
    ASSERT_EQ(a != nullptr, b != nullptr);
    if (a == nullptr) return;
    ++plans_;
    EXPECT_TRUE(reports(*a, note) || a->gap() < 1e-8);
    EXPECT_FALSE(reports(*b, note));
    EXPECT_GE(a->objective, b->objective * (1 - 1e-9));
    EXPECT_LE(a->lower_bound, b->objective * (1 + 1e-9));
    worse_ += a->objective > b->objective * (1 + 1e-9);
  }
  int plans() const { return plans_; }
  int worse() const { return worse_; }

 private:
  int plans_ = 0, worse_ = 0;
};

StageProblem problem_of(uint64_t seed, uint32_t blocks, uint32_t devices) {
  std::mt19937_64 random(seed + 4'000);
  return testing::random_problem(random, {.most_blocks = blocks, .most_devices = devices, .skips = true});
}

// Rivals still hand in nothing, moves are not tried, and the bound is that of single sums.
TEST(Stops, AutoEndsWithItsFirstPlan) {
  Comparison found;
  AutoOptions alone;
  alone.rivals = AutoOptions::Rivals::kExcluded;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const StageProblem problem = problem_of(seed, 14, 9);
    found.add(auto_planner(alone)->plan(problem, stopped()), auto_planner(alone)->plan(problem), "interrupted");
  }
  EXPECT_GE(found.plans(), 20);
  EXPECT_GE(found.worse(), 10);
}

TEST(Stops, ExactEndsWithItsFirstPlan) {
  Comparison found;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const StageProblem problem = problem_of(seed, 5, 4);
    found.add(exact_planner()->plan(problem, stopped()), exact_planner()->plan(problem), "interrupted");
  }
  EXPECT_GE(found.plans(), 20);
  EXPECT_GE(found.worse(), 10);
}

TEST(Stops, AutoEndsAtItsBudget) {
  Comparison found;
  AutoOptions whole, little;
  whole.rivals = little.rivals = AutoOptions::Rivals::kExcluded;
  whole.simulated_actions = UINT64_MAX;
  little.simulated_actions = 1;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const StageProblem problem = problem_of(seed, 14, 9);
    found.add(auto_planner(little)->plan(problem), auto_planner(whole)->plan(problem), "budget");
  }
  EXPECT_GE(found.plans(), 20);
  EXPECT_GE(found.worse(), 10);
}

}  // namespace
}  // namespace rannc::partition
