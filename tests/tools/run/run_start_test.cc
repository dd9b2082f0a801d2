// The time after which a worker is taken for lost.
#include "tools/run/run_start.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace rannc::tools {
namespace {

std::chrono::seconds timeout_of_step(int64_t ns) {
  ir::Plan plan;
  plan.step_ns = ns;
  return default_timeout(plan);
}

TEST(DefaultTimeout, IsTenPredictedStepsWithinLimits) {
  using namespace std::chrono_literals;
  EXPECT_EQ(timeout_of_step(0), 60s);
  EXPECT_EQ(timeout_of_step(2'000'000'000), 60s);
  EXPECT_EQ(timeout_of_step(30'000'000'000), 300s);
  EXPECT_EQ(timeout_of_step(INT64_MAX), 24h);
}

}  // namespace
}  // namespace rannc::tools
