// What no plan can beat: bounds against every plan of small problems, and bounds that were not searched to the end.
#include "partition/stages/bounds/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>

#include "partition/stages/bounds/stage_floor.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/pricing/range_costs.h"
#include "tests/partition/stages/bounds/bound_problems.h"
#include "tests/partition/stages/support/judging.h"
#include "tests/support/tier.h"

namespace rannc::partition {
namespace {

using ::rannc::testing::cases_of;
using ::testing::IsEmpty;

/// The same problems with gradient sums after the backward pass.
testing::MakeProblem with_late_sums(const testing::MakeProblem& make) {
  return [make](std::mt19937_64& random, bool unequal) {
    StageProblem problem = make(random, unequal);
    problem.overlap_sums = false;
    return problem;
  };
}

/// No bound exceeds a plan, and bounds are close to the optimum: within what `Tightness` calls close. Beside backward
/// passes sums hide each in its own way, of which the bound does not know the latency.
void expect_tight(const testing::MakeProblem& make, int instances) {
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap ? "sums beside backward passes" : "sums after backward passes");
    const testing::Tightness found = testing::compare_bounds(overlap ? make : with_late_sums(make), instances);
    EXPECT_THAT(found.broken, IsEmpty());
    EXPECT_GE(found.feasible, instances / 2);
    EXPECT_GE(found.uniform_close, (overlap ? 0.75 : 0.8) * found.uniform);
    EXPECT_GE(found.close, (overlap ? 0.6 : 0.65) * found.feasible);
  }
}

TEST(LowerBound, IsBelowEveryPlanWhereMemoryIsTight) { expect_tight(testing::tight_problem, cases_of(2000)); }

TEST(LowerBound, IsBelowEveryPlanOfShardedState) {
  const auto sharded = [](std::mt19937_64& random, bool unequal) {
    StageProblem problem = testing::tight_problem(random, unequal);
    problem.sharded = true;
    return problem;
  };
  const int instances = cases_of(600);
  const testing::Tightness found = testing::compare_bounds(sharded, instances);
  EXPECT_THAT(found.broken, IsEmpty());
  EXPECT_GE(found.feasible, instances / 2);
}

TEST(LowerBound, IsBelowEveryPlanWhereLinksAreSlow) { expect_tight(testing::slow_links_problem, cases_of(2000)); }

/// Most blocks divide their gradients.
TEST(LowerBound, IsBelowEveryPlanOfLargeGradients) {
  const auto large = [](std::mt19937_64& random, bool unequal) {
    StageProblem problem = testing::slow_links_problem(random, unequal);
    problem.bucket_bytes = random() % 9;
    const uint64_t known = random() % 3;
    for (uint32_t b = 0; known > 0 && b < problem.blocks; ++b)
      problem.largest_gradients.push_back(gradient_bytes(problem, b) / static_cast<double>(4 * known));
    for (DeviceKind& kind : problem.cluster.kinds) kind.memory_bytes = 1ull << 60;
    return problem;
  };
  expect_tight(large, cases_of(2000));
}

/// Eight equal blocks in a chain on four devices.
StageProblem eight_blocks(uint64_t memory) {
  StageProblem problem;
  problem.blocks = 8;
  problem.times.push_back({{1}, {std::vector<double>(8, 100)}, {std::vector<double>(8, 200)}, {}});
  problem.parameter_bytes.assign(8, 100);
  problem.stashed_bytes_per_sample.assign(8, 50);
  for (uint32_t b = 0; b < 7; ++b) problem.values.push_back({b, {b + 1}, 1, 0, true});
  problem.cluster = make_cluster("four", {"d", memory, 1e12, 1e15, 0}, 1, 4, {1e12, 0}, {1e12, 0});
  problem.mini_batch = 16;
  problem.micro_batches = {16};
  problem.recompute = RecomputeRule::kChoose;
  return problem;
}

// Two blocks a device and 16 micro-batches of one sample: 2 * 100 * 4 bytes of state, 100 bytes for each in flight.
TEST(LowerBound, PricesForwardPassesThatMemoryForcesToRepeat) {
  const StageProblem roomy = eight_blocks(1'000'000), tight = eight_blocks(800 + 100 + 40);
  const double work = 16 * 8 * 300 / 4, fill = 3 * 600;
  EXPECT_NEAR(lower_bound(roomy, RangeCosts(roomy)).value, work + fill, 0.005 * work);
  // Only the last stage, whose gradients come at once, need not repeat: the one before it makes 16 forward passes more.
  const double bound = lower_bound(tight, RangeCosts(tight)).value;
  EXPECT_GE(bound, 16 * 800 + 2 * 600 - 0.005 * work);
}

// Without recompute and with room for one micro-batch, a stage waits for each to come back.
TEST(LowerBound, PricesTheWaitForRoom) {
  StageProblem tight = eight_blocks(800 + 100 + 40);
  tight.recompute = RecomputeRule::kNever;
  EXPECT_GE(lower_bound(tight, RangeCosts(tight)).value, 16 * 4 * 600 * 0.99);
}

// One sample takes a block as long as eight. Two devices hold a stash of one sample for each block and no more.
TEST(LowerBound, KnowsThatMemoryForbidsLargeMicroBatches) {
  StageProblem problem = eight_blocks(4 * (400 + 50) + 20);
  problem.times[0] = {{1, 8},
                      {std::vector<double>(8, 100), std::vector<double>(8, 100)},
                      {std::vector<double>(8, 200), std::vector<double>(8, 200)},
                      {}};
  problem.cluster = make_cluster("two", problem.cluster.kinds[0], 1, 2, {1e12, 0}, {1e12, 0});
  problem.mini_batch = 8;
  problem.micro_batches = {1, 8};
  problem.recompute = RecomputeRule::kNever;
  const double one_by_one = 8 * 8 * 300 / 2;
  for (const bool shared : {false, true}) {
    const Bound bound = lower_bound(problem, RangeCosts(problem), {.shared_devices = shared});
    EXPECT_GE(bound.value, one_by_one * (1 - 1e-6)) << bound.argument;
  }
  // All samples at once fit where each block repeats its forward pass.
  problem.recompute = RecomputeRule::kChoose;
  EXPECT_LT(lower_bound(problem, RangeCosts(problem), {.shared_devices = true}).value, one_by_one / 2);
}

/// Two blocks that only two devices together hold, so that every micro-batch crosses a link both ways.
StageProblem two_stages(Objective objective, const Link& link, double bytes) {
  StageProblem problem = eight_blocks(450 + 300);
  problem.blocks = 2;
  problem.times[0] = {{1}, {{100, 100}}, {{200, 200}}, {}};
  problem.parameter_bytes = {100, 100};
  problem.stashed_bytes_per_sample = {50, 50};
  problem.values = {{0, {1}, bytes, 0, true}};
  problem.cluster = make_cluster("two", {"d", 750, 1e12, 1e15, 0}, 1, 2, link, link);
  problem.recompute = RecomputeRule::kNever;
  problem.objective = objective;
  return problem;
}

// 16 micro-batches of 10 bytes each way at 40 ns a byte and 25 ns more: the port of the second stage takes in
// 16 * 400 ns, whoever computes in the meantime.
TEST(LowerBound, KnowsMessages) {
  const Link slow{25e6, 25};
  const auto bound = [&](Objective objective, double bytes) {
    const StageProblem problem = two_stages(objective, slow, bytes);
    return lower_bound(problem, RangeCosts(problem)).value;
  };
  using enum Objective;
  EXPECT_NEAR(bound(kStepTime, 0), 16 * 300 + 300, 10);
  // Forward, all messages there, and the last micro-batch through the second stage and back through the first.
  EXPECT_GE(bound(kStepTime, 10), 100 + 16 * 400 + 300 - 10);
  EXPECT_NEAR(bound(kPeriod, 0), 16 * 300, 10);
  EXPECT_NEAR(bound(kPeriod, 10), 16 * 425, 10);
  EXPECT_NEAR(bound(kLargestLoad, 0), 16 * 300, 10);
  EXPECT_NEAR(bound(kLargestLoad, 10), 16 * (300 + 2 * 425), 20);
}

// Micro-batches of two samples and of one. Of the second block's 100 ns the smaller one's are all input gradient, the
// larger one's all weight gradient, which zb-h1 puts off: both stages are through after 10 + 2 * 10 + 2 * 100 ns.
TEST(LowerBound, AllowsForInputGradientsThatFallWithTheSamples) {
  StageProblem problem;
  problem.blocks = 2;
  problem.times.push_back({{1, 2}, {{10, 10}, {10, 10}}, {{50, 100}, {50, 100}}, {{0, 0}, {0, 100}}});
  problem.parameter_bytes = {1e6, 1e6};  // replicas would spend a millisecond on their sum
  problem.stashed_bytes_per_sample = {1, 1};
  problem.values = {{0, {1}, 0, 0, true}};
  problem.cluster = make_cluster("two", {"d", 1 << 30, 1e12, 1e18, 0}, 1, 2, {1e9, 0}, {1e9, 0});
  problem.mini_batch = 3;
  problem.micro_batches = {2};
  StagePlan plan;
  plan.micro_batches = 2;
  plan.schedule = "zb-h1";
  plan.stages = {{0, 1, {DeviceId(0)}}, {1, 2, {DeviceId(1)}}};
  PlanJudge judge(problem);
  ASSERT_NEAR(testing::judge(judge, plan).value_or(0), 230, 5);
  EXPECT_LE(lower_bound(problem, judge.ranges()).value, plan.objective);
  EXPECT_TRUE(judge.judge(plan, plan.objective * 1.01)) << "ruled out by what its stages take alone";
}

TEST(LowerBound, HoldsHoweverEarlyItIsStopped) {
  StageProblem problem = eight_blocks(800 + 100 + 40);
  problem.micro_batches = {1, 2, 4, 8, 16};
  const RangeCosts ranges(problem);
  std::stop_source stop;
  stop.request_stop();
  const double stopped = lower_bound(problem, ranges, {.stop = stop.get_token()}).value;
  // A stopped search spends as much as one that may not spend anything.
  EXPECT_EQ(stopped, lower_bound(problem, ranges, {.steps = 0}).value);
  EXPECT_GE(stopped, 16 * 8 * 300 / 4 * 0.999);
  double before = stopped, most = lower_bound(problem, ranges).value;
  EXPECT_LT(before, most);
  for (uint64_t steps = 100; steps < 10'000'000; steps *= 4) {
    const double bound = lower_bound(problem, ranges, {.steps = steps}).value;
    EXPECT_LE(bound, most * 1.002) << steps;
    before = bound;
  }
  EXPECT_NEAR(before, most, 0.002 * most);
}

}  // namespace
}  // namespace rannc::partition
