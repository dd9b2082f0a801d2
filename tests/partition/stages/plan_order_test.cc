// Which of two plans is the better one.
#include <gtest/gtest.h>

#include <random>

#include "partition/stages/judge/judge.h"

namespace rannc::partition {
namespace {

StagePlan plan_of(double objective, double step) {
  StagePlan plan;
  plan.objective = objective;
  plan.step_ns = step;
  return plan;
}

TEST(PlanOrder, SmallerObjectiveThenShorterStep) {
  EXPECT_TRUE(better(plan_of(1, 9), plan_of(2, 1)));
  EXPECT_TRUE(better(plan_of(1, 1), plan_of(1, 2)));
  EXPECT_FALSE(better(plan_of(1, 1), plan_of(1, 1)));
  // Rounding is no difference.
  EXPECT_TRUE(better(plan_of(1e6 * (1 + 1e-13), 1), plan_of(1e6, 2)));
  EXPECT_FALSE(better(plan_of(1e6, 2), plan_of(1e6 * (1 + 1e-13), 1)));
  EXPECT_TRUE(better(plan_of(0, 1), plan_of(1, 0)));
}

// Sorting asks for it: differences near the tolerance, in both numbers.
TEST(PlanOrder, IsAStrictWeakOrder) {
  std::mt19937_64 random(5);
  const auto near_one = [&](double unit) { return 1 + static_cast<double>(random() % 7) * unit; };
  for (int i = 0; i < 200'000; ++i) {
    const double unit = i % 2 == 0 ? 0.4e-9 : 1e-3;
    const StagePlan a = plan_of(near_one(unit), near_one(unit)), b = plan_of(near_one(unit), near_one(unit)),
                    c = plan_of(near_one(unit), near_one(unit));
    ASSERT_FALSE(better(a, a));
    ASSERT_FALSE(better(a, b) && better(b, a));
    ASSERT_TRUE(better(a, c) || !better(a, b) || !better(b, c));
    const auto equal = [](const StagePlan& x, const StagePlan& y) { return !better(x, y) && !better(y, x); };
    if (equal(a, b) && equal(b, c)) {
      ASSERT_TRUE(equal(a, c)) << a.objective - 1 << ' ' << b.objective - 1 << ' ' << c.objective - 1 << ", "
                               << a.step_ns - 1 << ' ' << b.step_ns - 1 << ' ' << c.step_ns - 1;
    }
  }
}

}  // namespace
}  // namespace rannc::partition
