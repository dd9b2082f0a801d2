// Gradient sums beside the backward pass: what of them follows it, and that it is simulated so.
#include "partition/stages/pricing/stage_sums.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/partition/stages/support/judging.h"
#include "tests/partition/stages/support/oracle.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

/// Four blocks with gradients of 2, 1, 0 and 4 MB.
StageProblem four_blocks() {
  StageProblem problem;
  problem.blocks = 4;
  problem.parameter_bytes = {2e6, 1e6, 0, 4e6};
  return problem;
}

// Of 7 units the sums take 4 and 3. The passes take 6, 5, 4 and 3.
TEST(StageSums, FollowTheBackwardPassFromTheLastBlockToTheFirst) {
  const std::vector<SumCost> sums = stage_sums(four_blocks(), 0, 4, {0, 6, 11, 15, 18}, {7, 0});
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].duration, 4);
  EXPECT_EQ(sums[0].ahead, 15);
  EXPECT_EQ(sums[1].duration, 3);
  EXPECT_EQ(sums[1].ahead, 0);
  EXPECT_EQ(exposed_ns(sums), 3) << "the first blocks' alone";
  EXPECT_EQ(exposed_ns(stage_sums(four_blocks(), 0, 4, {0, 6, 11, 15, 18}, {28, 0})), 28 - 15)
      << "the sum of the last block lasts longer than what is left";
  EXPECT_EQ(exposed_ns(stage_sums(four_blocks(), 2, 4, {0, 60, 70}, {20, 0})), 0) << "without parameters in front";
  EXPECT_EQ(exposed_ns(stage_sums(four_blocks(), 0, 4, {0, 0, 0, 0, 0}, {32, 0})), 32) << "no time to hide in";
}

// Ten sums of 4 MiB: while they are faster than the pass, the last one follows it; else all wait for the first.
TEST(StageSums, DivideTheGradientsOfLargeBlocks) {
  StageProblem problem;
  problem.blocks = 1;
  const double bucket = static_cast<double>(problem.bucket_bytes);
  problem.parameter_bytes = {10 * bucket};
  EXPECT_NEAR(exposed_ns(stage_sums(problem, 0, 1, {0, 100}, {50, 0})), 5, 1e-9);
  EXPECT_NEAR(exposed_ns(stage_sums(problem, 0, 1, {0, 100}, {300, 0})), 300 - 90, 1e-9);
  problem.parameter_bytes = {10 * bucket + 1};
  EXPECT_NEAR(exposed_ns(stage_sums(problem, 0, 1, {0, 110}, {55, 0})), 5, 1e-9);
}

// A bucket has the bytes of the limit, or twice those of the largest gradient, or one gradient.
TEST(StageSums, DivideAndJoinGradientsByTheLimitOfBuckets) {
  StageProblem large;
  large.blocks = 1;
  large.parameter_bytes = {100};
  const auto exposed = [&] { return exposed_ns(stage_sums(large, 0, 1, {0, 1000}, {100, 0})); };
  large.bucket_bytes = 50;
  EXPECT_NEAR(exposed(), 50, 1e-9);
  large.bucket_bytes = 10;
  EXPECT_NEAR(exposed(), 10, 1e-9);
  large.largest_gradients = {25};
  EXPECT_NEAR(exposed(), 25, 1e-9) << "no gradient is divided";
  large.bucket_bytes = 0;
  EXPECT_NEAR(exposed(), 25, 1e-9);
  large.bucket_bytes = 1000;
  EXPECT_NEAR(exposed(), 50, 1e-9) << "more than twice the largest gradient are not summed together";

  StageProblem small;
  small.blocks = 4;
  small.parameter_bytes = {10, 10, 10, 10};
  const auto count = [&] { return stage_sums(small, 0, 4, {0, 1, 2, 3, 4}, {4, 0}).size(); };
  small.bucket_bytes = 40;
  EXPECT_EQ(count(), 4u) << "gradients unknown: as large as the largest block";
  small.largest_gradients = {10, 10, 10, 10};
  EXPECT_EQ(count(), 2u);
  small.largest_gradients = {2, 20, 2, 2};
  EXPECT_EQ(count(), 1u);
  small.largest_gradients = {10, 20, 10, 10};
  small.bucket_bytes = 30;
  EXPECT_EQ(count(), 2u);
  small.bucket_bytes = 0;
  EXPECT_EQ(count(), 4u);
}

TEST(StageSums, JoinsSmallBlocksAndCountsSharedParametersWithTheirFirstBlock) {
  StageProblem problem = four_blocks();
  problem.parameter_bytes = {1e6, 1e6, 1e6, 4e6};
  const std::vector<SumCost> joined = stage_sums(problem, 0, 4, {0, 6, 11, 15, 18}, {7, 0});
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[1].duration, 3);
  EXPECT_EQ(joined[1].ahead, 0);
  problem.shared.push_back({SharedHolding::Kind::kParameter, {0, 2, 3}, 0, 2e6});
  const std::vector<SumCost> shared = stage_sums(problem, 1, 4, {0, 5, 9, 12}, {8, 0});
  ASSERT_EQ(shared.size(), 3u);
  EXPECT_EQ(shared[0].duration, 4);
  EXPECT_EQ(shared[1].duration, 2) << "1 + 1 MB";
  EXPECT_EQ(shared[2].duration, 2) << "of several stages, after all others";
  // What each replica has updated is gathered after the backward pass, however early the sums are.
  problem.shared.clear();
  EXPECT_EQ(exposed_ns(stage_sums(problem, 3, 4, {50, 60}, {6, 3})), 3);
}

TEST(StageSums, EvenPartsEndTogetherWithTheSums) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<SumCost> sums(1 + random() % 6);
    double all = 0, ahead = 0;
    for (size_t i = sums.size(); i-- > 0;) {
      sums[i] = {1 + static_cast<double>(random() % 100), ahead};
      all += sums[i].duration;
      ahead += static_cast<double>(random() % 100);
    }
    const auto most = static_cast<uint32_t>(1 + random() % 9);
    const std::vector<SumCost> even = even_sums(sums, most);
    EXPECT_LE(even.size(), most + 1) << seed;
    double total = 0;
    for (const SumCost& part : even) total += part.duration;
    EXPECT_NEAR(total, all, 1e-9 * all) << seed;
    EXPECT_NEAR(exposed_ns(even), exposed_ns(sums), 1e-9 * all) << seed;
  }
}

/// Calls `visit` for plans of random problems with sums that take about as long as the passes.
template <class Visit>
void each_plan(uint64_t seeds, Visit&& visit) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed + 4242);
    StageProblem problem =
        testing::random_problem(random, {.most_blocks = 4, .most_devices = 4, .unequal = seed % 3 == 0, .skips = true});
    problem.recompute = RecomputeRule::kNever;
    problem.sharded = seed % 4 == 1;
    if (problem.micro_batches.size() > 2) problem.micro_batches.resize(2);
    for (TimeTable& table : problem.times) {
      table.weight_gradient = table.backward;
      for (auto& row : table.weight_gradient) {
        for (double& time : row) time /= 2;
      }
    }
    testing::for_each_roomy_plan(problem, [&](StagePlan plan) {
      for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
        plan.schedule = schedule;
        visit(problem, plan);
      }
    });
  }
}

TEST(PlanJudge, PlansAreNoSlowerWithSumsBesideBackwardPasses) {
  int plans = 0, faster = 0;
  each_plan(200, [&](StageProblem problem, const StagePlan& given) {
    StagePlan early = given, late = given;
    problem.overlap_sums = false;
    if (!testing::judge(problem, late)) return;
    problem.overlap_sums = true;
    ASSERT_TRUE(testing::judge(problem, early));
    ++plans;
    faster += early.step_ns < late.step_ns * (1 - 1e-9);
    ASSERT_LE(early.step_ns, late.step_ns * (1 + 1e-9)) << brief(given) << ' ' << given.schedule;
    for (size_t s = 0; s < early.stages.size(); ++s) {
      ASSERT_EQ(early.stages[s].all_reduce_ns, late.stages[s].all_reduce_ns);
      ASSERT_EQ(late.stages[s].exposed_ns, late.stages[s].all_reduce_ns);
      ASSERT_LE(early.stages[s].exposed_ns, late.stages[s].all_reduce_ns * (1 + 1e-9));
    }
  });
  EXPECT_GE(plans, 2000);
  EXPECT_GE(faster, plans / 8);
}

// Of one stage no message waits for a sum.
TEST(PlanJudge, SumsTakeAsLongAsDeviceByDevice) {
  int plans = 0;
  each_plan(200, [&](const StageProblem& problem, const StagePlan& given) {
    if (given.stages.size() > 1 || problem.mini_batch % (given.micro_batches * given.stages[0].devices.size()) != 0) {
      return;
    }
    PlanJudge judge(problem);
    StagePlan whole = given;
    if (!testing::judge(judge, whole)) return;
    StagePlan by_device = whole;
    ASSERT_TRUE(testing::take(judge.judge_by_device(whole), by_device));
    ++plans;
    ASSERT_NEAR(by_device.step_ns, whole.step_ns, 1e-9 * whole.step_ns) << brief(given) << ' ' << given.schedule;
  });
  EXPECT_GE(plans, 200);
}

}  // namespace
}  // namespace rannc::partition
