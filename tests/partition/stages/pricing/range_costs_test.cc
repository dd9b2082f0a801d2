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

// A block computes beside what the blocks before it save, not beside what those behind it do.
TEST(RangeCosts, TemporariesStandBesideWhatEarlierBlocksSave) {
  int smaller = 0, parted = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    StageProblem problem = testing::random_problem(random, {.most_blocks = 12});
    problem.parts_backward = true;
    problem.pending_bytes_per_sample.clear();
    for (const double stash : problem.stashed_bytes_per_sample) {
      problem.pending_bytes_per_sample.push_back(stash * static_cast<double>(random() % 4) / 2);
    }
    const auto &growing = problem.temporary_bytes_per_sample, &fixed = problem.temporary_bytes;
    ASSERT_EQ(growing.size(), problem.blocks);
    const RangeCosts ranges(problem);
    for (uint32_t a = 0; a < problem.blocks; ++a) {
      for (uint32_t b = a + 1; b <= problem.blocks; ++b) {
        double most = 0, waits = 0, behind = 0, freed = 0;
        for (uint32_t block = b; block-- > a;) {
          const double stash = problem.stashed_bytes_per_sample[block];
          most = std::max(most, growing[block] - behind);
          waits = std::max(waits, growing[block] - freed);
          behind += stash;
          freed += std::max(0.0, stash - problem.pending_bytes_per_sample[block]);
        }
        const double constant = *std::max_element(fixed.begin() + a, fixed.begin() + b);
        ASSERT_DOUBLE_EQ(ranges.temporary(a, b).at(3), constant + 3 * most) << a << " to " << b;
        ASSERT_DOUBLE_EQ(ranges.parted_temporary(a, b).at(3), constant + 3 * waits) << a << " to " << b;
        smaller += most < *std::max_element(growing.begin() + a, growing.begin() + b);
        parted += waits > most;
      }
    }
  }
  EXPECT_GT(smaller, 100);
  EXPECT_GT(parted, 100);
}

}  // namespace
}  // namespace rannc::partition
