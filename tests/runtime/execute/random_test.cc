// The counter-based generator: known answers, and what draws depend on.
#include "runtime/execute/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace rannc::runtime {
namespace {

using ::testing::ElementsAre;

/// Known answers of the authors' Random123 distribution for philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

using Of = ir::RandomInput::Of;

std::vector<float> drawn(const ir::RandomInput& draw, const RandomStep& in, uint64_t sample, size_t count) {
  std::vector<float> numbers(count);
  fill(draw, in, sample, numbers);
  return numbers;
}

/// Mean of the numbers to that power.
double moment(const std::vector<float>& numbers, int power) {
  double sum = 0;
  for (const float number : numbers) sum += std::pow(number, power);
  return sum / static_cast<double>(numbers.size());
}

TEST(RandomInput, BernoulliKeepsTheExpectedShareAndMean) {
  for (const double ratio : {0.1, 0.5, 0.9}) {
    const auto factors = drawn({Of::kBernoulli, ratio, 3}, {1, 2}, 4, 200'000);
    double kept = 0, total = 0;
    for (float factor : factors) {
      kept += factor > 0;
      total += factor;
      EXPECT_TRUE(factor == 0 || factor == static_cast<float>(1 / (1 - ratio)));
    }
    const double deviation = std::sqrt(ratio * (1 - ratio) / 200'000);  // of the share that is kept
    EXPECT_NEAR(kept / 200'000, 1 - ratio, 5 * deviation);
    EXPECT_NEAR(total / 200'000, 1, 5 * deviation / (1 - ratio));
  }
}

// The first factors of a run as they have always been: a change of the counter would change every trained model.
TEST(RandomInput, BernoulliStaysWhatItIs) {
  const auto factors = drawn({Of::kBernoulli, 0.4, 3}, {1, 2}, 4, 16);
  std::string kept;
  for (const float factor : factors) kept += factor > 0 ? '1' : '0';
  EXPECT_EQ(kept, "1011000101111001");
}

// Within five deviations of the mean of so many numbers.
TEST(RandomInput, UniformAndNormalHaveTheirMoments) {
  constexpr size_t kCount = 400'000;
  const double root = std::sqrt(static_cast<double>(kCount));
  const auto uniform = drawn({Of::kUniform, 0, 3}, {1, 2}, 4, kCount);
  EXPECT_TRUE(std::all_of(uniform.begin(), uniform.end(), [](float x) { return x >= 0 && x < 1; }));
  EXPECT_NEAR(moment(uniform, 1), 1. / 2, 5 * std::sqrt(1. / 12) / root);
  EXPECT_NEAR(moment(uniform, 2), 1. / 3, 5 * std::sqrt(4. / 45) / root);
  const auto normal = drawn({Of::kNormal, 0, 3}, {1, 2}, 4, kCount);
  EXPECT_NEAR(moment(normal, 1), 0, 5 / root);
  EXPECT_NEAR(moment(normal, 2), 1, 5 * std::sqrt(2.) / root);
  EXPECT_NEAR(moment(normal, 3), 0, 5 * std::sqrt(15.) / root);
  EXPECT_NEAR(moment(normal, 4), 3, 5 * std::sqrt(96.) / root);
}

TEST(RandomInput, DependsOnKeyAndSampleAndNotOnHowManyAreDrawn) {
  for (const Of of : {Of::kUniform, Of::kNormal, Of::kBernoulli}) {
    const auto base = drawn({of, 0.5, 3}, {1, 2}, 4, 64);
    EXPECT_EQ(base, drawn({of, 0.5, 3}, {1, 2}, 4, 64));
    EXPECT_NE(base, drawn({of, 0.5, 3}, {9, 2}, 4, 64));
    EXPECT_NE(base, drawn({of, 0.5, 3}, {1, 9}, 4, 64));
    EXPECT_NE(base, drawn({of, 0.5, 9}, {1, 2}, 4, 64));
    EXPECT_NE(base, drawn({of, 0.5, 3}, {1, 2}, 9, 64));
    const auto longer = drawn({of, 0.5, 3}, {1, 2}, 4, 103);
    EXPECT_TRUE(std::equal(base.begin(), base.end(), longer.begin()));
  }
}

}  // namespace
}  // namespace rannc::runtime
