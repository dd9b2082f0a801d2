// Cuts of the parameters of a stage into shares, and the memory that they leave.
#include "ir/plan/optimizer_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/plan/plan.h"
#include "ir/text/text.h"
#include "tests/support/small_plan.h"

namespace rannc::ir {
namespace {

using ::testing::ElementsAre;

/// The share of a replica of parameters that are in one bucket.
std::vector<ParameterSlice> optimizer_share(const std::vector<ParameterExtent>& parameters, size_t replica,
                                            size_t replicas) {
  return share_of_replica(optimizer_shares(parameters, {}, replicas), replica);
}

TEST(OptimizerShares, CutParametersAtMultiplesOf4096Elements) {
  const std::vector<ParameterExtent> elements = {{10'000}, {5}, {10'000}};
  // 20,005 in three: cuts up to 6,668 and 13,336, of which the latter lies 3,331 behind the beginning of the third.
  EXPECT_THAT(optimizer_share(elements, 0, 3), ElementsAre(ParameterSlice{0, 0, 4096}));
  EXPECT_THAT(optimizer_share(elements, 1, 3), ElementsAre(ParameterSlice{0, 4096, 10'000}, ParameterSlice{1, 0, 5}));
  EXPECT_THAT(optimizer_share(elements, 2, 3), ElementsAre(ParameterSlice{2, 0, 10'000}));
}

TEST(OptimizerShares, SmallParametersAreWhole) {
  const std::vector<ParameterExtent> elements = {{3}};
  EXPECT_TRUE(optimizer_share(elements, 0, 2).empty());
  EXPECT_THAT(optimizer_share(elements, 1, 2), ElementsAre(ParameterSlice{0, 0, 3}));
}

TEST(OptimizerShares, IndivisibleParametersHaveOneOwner) {
  const std::vector<ParameterExtent> elements = {{12'000, false}, {5}, {10'000, false}, {10'000}};
  // 32,005 in three: 10,668 lies nearer to the first one's end, 21,336 to the third one's.
  EXPECT_THAT(optimizer_share(elements, 0, 3), ElementsAre(ParameterSlice{0, 0, 12'000}));
  EXPECT_THAT(optimizer_share(elements, 1, 3), ElementsAre(ParameterSlice{1, 0, 5}, ParameterSlice{2, 0, 10'000}));
  EXPECT_THAT(optimizer_share(elements, 2, 3), ElementsAre(ParameterSlice{3, 0, 10'000}));
}

TEST(OptimizerShares, CutEachBucketAndEvenOutWhatEarlierOnesLeft) {
  const std::vector<ParameterExtent> elements = {{10'000}, {5'000}, {3}, {5'000}};
  // Of the first bucket's 5,000 elements, the first replica of two cannot have 2,500. It has all of the second bucket,
  // since 5,000 of 10,000 are its part by then. The rest has 10,003.
  const OptimizerShares shares = optimizer_shares(elements, {{3}, {1}}, 2);
  ASSERT_EQ(shares.size(), 3);
  EXPECT_THAT(shares[0], ElementsAre(ElementsAre(), ElementsAre(ParameterSlice{3, 0, 5'000})));
  EXPECT_THAT(shares[1], ElementsAre(ElementsAre(ParameterSlice{1, 0, 5'000}), ElementsAre()));
  EXPECT_THAT(shares[2], ElementsAre(ElementsAre(ParameterSlice{0, 0, 4096}),
                                     ElementsAre(ParameterSlice{0, 4096, 10'000}, ParameterSlice{2, 0, 3})));
  EXPECT_THAT(share_of_replica(shares, 0), ElementsAre(ParameterSlice{0, 0, 4096}, ParameterSlice{1, 0, 5'000}));
}

TEST(OptimizerShares, CoverAllElementsOnceAndDifferByLessThanACutAndAWholeParameter) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<ParameterExtent> elements(1 + random() % 12);
    int64_t total = 0, uncut = 0;
    for (ParameterExtent& each : elements) {
      each.elements = static_cast<int64_t>(random() % (random() % 2 == 0 ? 50 : 40'000));
      each.divisible = seed % 2 == 0 || random() % 2 == 0;
      if (!each.divisible) uncut = std::max(uncut, each.elements);
      total += each.elements;
    }
    std::vector<ParameterBucket> buckets(1 + random() % 4);
    for (uint32_t i = 0; i < elements.size(); ++i) {
      const size_t bucket = random() % (buckets.size() + 1);
      if (bucket < buckets.size()) buckets[bucket].push_back(i);
    }
    for (ParameterBucket& bucket : buckets) std::shuffle(bucket.begin(), bucket.end(), random);
    const size_t replicas = 1 + random() % 9;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OptimizerShares shares = optimizer_shares(elements, buckets, replicas);
    ASSERT_EQ(shares.size(), buckets.size() + 1);
    std::vector<int64_t> next(elements.size());
    for (size_t r = 0; r < replicas; ++r) {
      for (size_t b = 0; b < buckets.size(); ++b) {
        for (const ParameterSlice& slice : shares[b][r])
          ASSERT_NE(std::find(buckets[b].begin(), buckets[b].end(), slice.parameter), buckets[b].end());
      }
      int64_t own = 0;
      for (const ParameterSlice& slice : share_of_replica(shares, r)) {
        ASSERT_EQ(slice.first, next[slice.parameter]);
        ASSERT_EQ(slice.first % kShareCut, 0);
        ASSERT_LT(slice.first, slice.last);
        const ParameterExtent& of = elements[slice.parameter];
        ASSERT_TRUE(of.divisible || slice.size() == of.elements);
        next[slice.parameter] = slice.last;
        own += slice.size();
      }
      ASSERT_LT(std::abs(own - total / static_cast<int64_t>(replicas)), kShareCut + uncut + 1);
    }
    for (size_t i = 0; i < elements.size(); ++i) ASSERT_EQ(next[i], elements[i].elements);
  }
}

TEST(OptimizerShares, RoundsHaveWholeCuts) {
  EXPECT_EQ(elements_per_round(2), 1 << 19);
  EXPECT_EQ(elements_per_round(3) % kShareCut, 0);
  EXPECT_EQ(elements_per_round(100'000), kShareCut);
}

constexpr const char* kGraph = R"(rannc.graph 1
batch batch
input %x: f32[batch,256] samples 0
parameter %w: f32[256,256]
#0 %y: f32[batch,256] samples 0 = core.matmul(%x, %w)
inputs [%x]
outputs [%y]
)";

TEST(OptimizerShares, DivideTheStateInTheMemoryModel) {
  Plan plan = testing::small_plan(parse_graph(kGraph, "t.rir").value(), {1, 4, 8, 1});
  plan.optimizer.name = "adam";
  const int64_t whole = pipeline_shape(plan).stages[0].fixed_bytes, state = 2 * 4 * 256 * 256;
  plan.stages[0].sharded = true;
  const PipelineShape shape = pipeline_shape(plan);
  EXPECT_TRUE(shape.stages[0].sharded);
  EXPECT_EQ(shape.stages[0].fixed_bytes, whole - state + state / 4);
}

}  // namespace
}  // namespace rannc::ir
