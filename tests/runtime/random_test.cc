// The counter-based generator: known answers, and what masks depend on.
#include "runtime/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

std::vector<float> mask(const MaskKey& key, uint64_t sample, double ratio, size_t count) {
  std::vector<float> factors(count);
  fill_mask(key, sample, ratio, factors);
  return factors;
}

TEST(Mask, KeepsTheExpectedShareAndMean) {
  for (const double ratio : {0.1, 0.5, 0.9}) {
    const auto factors = mask({1, 2, 3}, 4, ratio, 200'000);
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

TEST(Mask, DependsOnKeyAndSampleAndNotOnHowManyAreDrawn) {
  const auto base = mask({1, 2, 3}, 4, 0.5, 64);
  EXPECT_EQ(base, mask({1, 2, 3}, 4, 0.5, 64));
  EXPECT_NE(base, mask({9, 2, 3}, 4, 0.5, 64));
  EXPECT_NE(base, mask({1, 9, 3}, 4, 0.5, 64));
  EXPECT_NE(base, mask({1, 2, 9}, 4, 0.5, 64));
  EXPECT_NE(base, mask({1, 2, 3}, 9, 0.5, 64));
  const auto longer = mask({1, 2, 3}, 4, 0.5, 103);
  EXPECT_TRUE(std::equal(base.begin(), base.end(), longer.begin()));
}

}  // namespace
}  // namespace rannc::runtime
