// Sums over block ranges against their definitions.
#include "partition/stages/pricing/range_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

bool reads(const BlockValue& value, uint32_t a, uint32_t b) {
  return std::any_of(value.readers.begin(), value.readers.end(), [&](uint32_t r) { return r >= a && r < b; });
}

/// What a stage of the blocks [a, b) receives, sends, and returns the gradients of.
struct Messages {
  double received = 0, returned = 0, sent = 0, answered = 0;
};

Messages messages_of(const StageProblem& problem, uint32_t a, uint32_t b, double samples) {
  Messages sums;
  for (const BlockValue& value : problem.values) {
    const double bytes = value.bytes + value.bytes_per_sample * samples;
    if (value.producer < a && reads(value, a, b)) {
      sums.received += bytes;
      if (value.gradient) sums.returned += bytes;
    }
    if (value.producer >= a && value.producer < b && reads(value, b, problem.blocks)) {
      sums.sent += bytes;
      if (value.gradient) sums.answered += bytes;
    }
  }
  return sums;
}

// Sizes that no double adds up exactly: where nothing crosses, the sum is nothing, since even a byte costs a latency.
TEST(RangeCosts, AreTheSumsOfTheirValues) {
  int empty = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    StageProblem problem = testing::random_problem(random, {.most_blocks = 12, .skips = true});
    for (BlockValue& value : problem.values) {
      value.bytes_per_sample *= 1e9 / 3;
      value.bytes *= 1e11 / 7;
    }
    const RangeCosts ranges(problem);
    for (uint32_t a = 0; a < problem.blocks; ++a) {
      for (uint32_t b = a + 1; b <= problem.blocks; ++b) {
        const Messages expected = messages_of(problem, a, b, 5);
        const auto expect_sum = [&](const Affine& sum, double exact) {
          ASSERT_EQ(sum.at(5) == 0, exact == 0) << a << " to " << b;
          ASSERT_NEAR(sum.at(5), exact, 1e-9 * exact) << a << " to " << b;
          empty += exact == 0;
        };
        expect_sum(ranges.received(a, b), expected.received);
        expect_sum(ranges.returned(a, b), expected.returned);
        expect_sum(ranges.sent(a, b), expected.sent);
        expect_sum(ranges.answered(a, b), expected.answered);
      }
    }
  }
  EXPECT_GT(empty, 1000);
}

}  // namespace
}  // namespace rannc::partition
