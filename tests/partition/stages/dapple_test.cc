// DAPPLE's device sets, pivot, latency and planner.
#include "partition/stages/dapple.h"

#include <gtest/gtest.h>

#include "partition/stages/device_sets.h"
#include "partition/stages/judge.h"
#include "partition/stages/profile_problem.h"
#include "tests/partition/stages/oracle.h"
#include "tests/partition/stages/profiles.h"
#include "tests/partition/stages/random_problem.h"

namespace rannc::partition {
namespace {

std::vector<uint32_t> picked(DevicePolicy policy, const std::vector<uint32_t>& busy, uint32_t count) {
  const Cluster cluster = make_cluster("three", {"d", 1, 1, 1, 0}, 3, 8, {1, 0}, {1, 0});
  std::vector<char> used(24, 0);
  for (const uint32_t device : busy) used[device] = 1;
  std::vector<uint32_t> ids;
  for (const DeviceId device : pick_devices(cluster, used, count, policy)) ids.push_back(device.index());
  return ids;
}

// Three machines of eight; 0-3 and 8-9 are busy; six are asked for (Figure 5).
TEST(DeviceSets, OfTheThreePolicies) {
  const std::vector<uint32_t> busy{0, 1, 2, 3, 8, 9};
  EXPECT_EQ(picked(DevicePolicy::kFreshFirst, busy, 6), (std::vector<uint32_t>{16, 17, 18, 19, 20, 21}));
  EXPECT_EQ(picked(DevicePolicy::kAppendFirst, busy, 6), (std::vector<uint32_t>{4, 5, 6, 7, 10, 11}));
  EXPECT_EQ(picked(DevicePolicy::kScatterFirst, busy, 6), (std::vector<uint32_t>{4, 5, 6, 10, 11, 12}));
}

TEST(DeviceSets, ScatterSpreadsOverAllWhenAllAreFresh) {
  EXPECT_EQ(picked(DevicePolicy::kScatterFirst, {}, 6), (std::vector<uint32_t>{0, 1, 8, 9, 16, 17}));
  EXPECT_EQ(picked(DevicePolicy::kFreshFirst, {}, 10), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(picked(DevicePolicy::kFreshFirst, {0}, 24).empty());
}

// Equal stages: the last is the pivot. A heavy early stage takes over once it outweighs what lies between.
TEST(PipelineLatency, PivotByAlgorithm1) {
  const std::vector<LatencyStage> equal(4, {1, 2, 0});
  EXPECT_EQ(pivot_stage(equal, 8), 3u);
  EXPECT_DOUBLE_EQ(pipeline_latency(equal, 8), 4 * 1 + 7 * 3 + 4 * 2);
  EXPECT_EQ(pivot_stage({{2, 4, 0}, {1, 2, 0}, {1, 2, 0}}, 2), 2u);  // 6 > 3 + 3 does not hold
  EXPECT_EQ(pivot_stage({{2, 4, 0}, {1, 2, 0}, {1, 2, 0}}, 3), 0u);  // 12 > 6 + 3
}

TEST(PipelineLatency, EndingCountsAllReducesBesideTheBackwardPass) {
  // Pivot 1: warm-up 1 + 2, steady 3 * 6, ending max(B0 + B1 + AR0, B1 + AR1).
  EXPECT_DOUBLE_EQ(pipeline_latency({{1, 1, 5}, {2, 4, 0.5}}, 4), 3 + 18 + 10);
  // Behind the pivot the all-reduce has a head start of the pivot's and its own backward pass.
  EXPECT_DOUBLE_EQ(pipeline_latency({{4, 8, 0}, {1, 2, 30}}, 10), 4 + 9 * 12 + 20);
}

// D7: two blocks of 5 and 3 and 2 devices; the even cut does not exist, and of three cuts of (4, 1, 1, 1, 1) the uneven
// one wins on the simulated timeline.
TEST(DapplePlanner, UnevenSplitIsOptimal) {
  StageProblem problem;
  problem.blocks = 4;
  // Cutting in the middle (4 + 4) would move a large activation; 5 + 3 moves nothing to speak of.
  problem.times.push_back({{1}, {{2, 2, 1, 3}}, {{2, 2, 1, 3}}});
  problem.parameter_bytes = {1e12, 1e12, 1e12, 1e12};
  problem.stashed_bytes_per_sample.assign(4, 0);
  problem.values = {{0, {1}, 8, 0, true}, {1, {2}, 8, 0, true}, {2, {3}, 0.01, 0, true}};
  problem.optimizer_factor = 0;
  problem.cluster = make_cluster("two", {"d", 1ull << 62, 1, 1, 0}, 1, 2, {1e9, 0}, {1e9, 0});
  problem.mini_batch = 4;
  problem.micro_batches = {4};
  const auto outcome = dapple_planner()->plan(problem);
  const auto& plan = std::get<StagePlan>(*outcome);
  EXPECT_EQ(brief(plan), "1:1 at 3");
  PlanJudge judge(problem);
  testing::for_each_plan(problem, [&](const std::vector<testing::OracleStage>& stages, uint64_t count, uint32_t) {
    StagePlan other;
    other.micro_batches = count;
    other.schedule = "1f1b";
    for (const auto& from : stages) {
      PlannedStage stage;
      stage.first = from.first;
      stage.end = from.end;
      for (uint32_t d = from.from; d < from.to; ++d) stage.devices.push_back(DeviceId(d));
      other.stages.push_back(stage);
    }
    const auto time = judge.judge(other);
    EXPECT_TRUE(!time || *time >= plan.objective) << brief(other);
  });
}

StageProblem published(const char* file, const char* preset, uint64_t mini_batch, uint64_t count) {
  const auto profile = testing::shared_profile(std::string("dapple/") + file);
  StageProblem problem = profile_problem(*profile, *preset_cluster(preset),
                                         {.profile_batch = profile_batch_of(file), .mini_batch = mini_batch})
                             .value();
  problem.micro_batches = {count};
  problem.constraints.memory_bytes.reset();
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory_bytes = 1ull << 45;
  return problem;
}

// Table 4: two stages of eight for BERT-48 on two machines of eight.
TEST(DapplePlanner, Bert48OnClusterA) {
  if (!testing::shared_profile("dapple/bert-48-pbs-2.txt")) GTEST_SKIP() << "no shared data at hand";
  const auto outcome = dapple_planner()->plan(published("bert-48-pbs-2.txt", "dapple-a", 64, 4));
  const auto& plan = std::get<StagePlan>(*outcome);
  ASSERT_EQ(plan.stages.size(), 2u) << brief(plan);
  EXPECT_EQ(plan.stages[0].devices.size(), 8u);
  EXPECT_EQ(plan.stages[0].devices.back(), DeviceId(7));
}

}  // namespace
}  // namespace rannc::partition
