// The bound against every plan of ten times as many instances as in `bounds_test.cc`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/partition/stages/bounds/bound_problems.h"

namespace rannc::partition {
namespace {

TEST(LowerBoundWide, IsBelowEveryPlan) {
  for (const testing::MakeProblem& make :
       {testing::MakeProblem(testing::tight_problem), testing::MakeProblem(testing::slow_links_problem)}) {
    const testing::Tightness found = testing::compare_bounds(make, 20'000);
    EXPECT_THAT(found.broken, ::testing::IsEmpty());
    EXPECT_GE(found.feasible, 10'000);
  }
}

}  // namespace
}  // namespace rannc::partition
