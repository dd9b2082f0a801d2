// What no plan can beat: bounds against every plan of small problems, and bounds that were not searched to the end.
#include "partition/stages/bounds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stop_token>

#include "partition/stages/internal/range_costs.h"
#include "partition/stages/judge.h"
#include "tests/partition/stages/oracle.h"
#include "tests/partition/stages/random_problem.h"

namespace rannc::partition {
namespace {

/// Warm-up depths that some schedule may have: they do not ascend.
std::vector<uint32_t> random_depths(std::mt19937_64& random, size_t stages, uint64_t micro_batches) {
  std::vector<uint32_t> depths(stages);
  for (uint32_t& depth : depths) depth = 1 + static_cast<uint32_t>(random() % micro_batches);
  std::sort(depths.rbegin(), depths.rend());
  return depths;
}

/// Least objective over every plan of the oracle under every schedule that is judged.
std::optional<double> least_of_all_plans(const StageProblem& problem, std::mt19937_64& random) {
  PlanJudge judge(problem);
  std::optional<double> least;
  testing::for_each_roomy_plan(problem, [&](StagePlan plan) {
    for (const std::string& schedule : judged_schedules()) {
      plan.schedule = schedule;
      plan.warm_up.clear();
      if (schedule == "warmup") plan.warm_up = random_depths(random, plan.stages.size(), plan.micro_batches);
      const auto time = judge.judge(plan);
      if (time && (!least || *time < *least)) least = time;
    }
  });
  return least;
}

/// Stashes that matter, few devices that hold them all, and backward passes in two parts.
StageProblem tight_problem(std::mt19937_64& random, bool unequal) {
  StageProblem problem = testing::random_problem(
      random, {.most_blocks = 4, .most_devices = 4, .unequal = unequal, .skips = random() % 2 == 0});
  problem.recompute = RecomputeRule::kChoose;
  if (problem.micro_batches.size() > 2) problem.micro_batches.resize(2);
  if (random() % 2 == 0) problem.micro_batches = {problem.mini_batch};
  double one = 0, all = 0;
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    problem.parameter_bytes[b] = static_cast<double>(random() % 20);
    one = std::max(one, problem.stashed_bytes_per_sample[b] + 4 * problem.parameter_bytes[b]);
    all += problem.stashed_bytes_per_sample[b] + 4 * problem.parameter_bytes[b];
  }
  for (BlockValue& value : problem.values) value.bytes_per_sample = static_cast<double>(random() % 6);
  for (DeviceKind& kind : problem.cluster.kinds) {
    kind.memory_bytes = static_cast<uint64_t>(one + static_cast<double>(random() % 1000) / 500 * all) + 20;
  }
  for (TimeTable& table : problem.times) {
    if (random() % 2 == 0) continue;
    table.weight_gradient = table.backward;
    for (auto& row : table.weight_gradient) {
      for (double& time : row) time *= 0.4;
    }
  }
  return problem;
}

TEST(LowerBound, IsBelowEveryPlanWhereMemoryIsTight) {
  int feasible = 0, close = 0;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE("instance " + std::to_string(i));
    std::mt19937_64 random(static_cast<uint64_t>(i) * 7'919 + 11);
    const StageProblem problem = tight_problem(random, i % 3 == 0);
    const auto least = least_of_all_plans(problem, random);
    if (!least) continue;
    ++feasible;
    const double bound = lower_bound(problem, RangeCosts(problem)).value;
    ASSERT_LE(bound, *least * (1 + 1e-9));
    close += bound >= 0.9 * *least;
  }
  EXPECT_GE(feasible, 1000);

  fmt::print("{} feasible, the bound within 10 % of the least step on {}\n", feasible, close);
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
