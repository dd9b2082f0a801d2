// Instances made to be hard end with a plan, a bound and a gap.
#include "tests/partition/reference/hardness.h"

#include <gtest/gtest.h>

#include "partition/reference/contiguous_split.h"

namespace rannc::partition {
namespace {

using testing::ThreePartition;

TEST(Hardness, AllocationsOfTheoremOneEndWithAGap) {
  for (const uint32_t parts : {2, 3, 4, 8, 16, 64}) {
    SCOPED_TRACE(parts);
    const auto instance = testing::three_partition(parts, parts);
    const auto problem = testing::theorem_one(instance);
    ASSERT_TRUE(problem.ok()) << problem.diagnostic().str();
    const SplitResult result = solve_split(*problem, {.devices = parts});
    ASSERT_TRUE(result.device_of.has_value()) << result.reason;
    const auto loads = split_loads(*problem, *result.device_of, parts);
    EXPECT_NEAR(*std::max_element(loads.begin(), loads.end()), result.largest_load, 1e-6);
    EXPECT_GE(result.largest_load, ThreePartition::kSum - 1e-6);
    EXPECT_LE(result.lower_bound, ThreePartition::kSum + 1e-6);  // a split of V exists
    EXPECT_GE(result.lower_bound, ThreePartition::kSum - 1e-6);  // and the work alone proves it
    EXPECT_LE(result.gap(), 0.25);
    EXPECT_TRUE(parts > 3 || result.gap() < 1e-9) << result.gap();
  }
}

TEST(Hardness, PeriodsOfTheoremTwoEndWithAGap) {
  for (const uint32_t parts : {1, 2, 4, 8}) {
    SCOPED_TRACE(parts);
    const auto hard = testing::theorem_two(testing::three_partition(parts, parts));
    EXPECT_NEAR(smallest_period(hard.shape, hard.times), hard.period, 1e-6);
    const double found = testing::found_period(hard);
    EXPECT_GE(found, hard.period - 1e-6);
    EXPECT_LE(found, 1.02 * hard.total);  // no worse than one batch after the other
  }
}

}  // namespace
}  // namespace rannc::partition
