// DAPPLE's device sets, pivot, latency and planner.
#include "partition/stages/papers/dapple.h"

#include <gtest/gtest.h>

#include <random>

#include "partition/stages/judge/judge.h"
#include "partition/stages/papers/device_set_graph.h"
#include "partition/stages/papers/device_sets.h"
#include "partition/stages/problem/profile_problem.h"
#include "tests/partition/stages/support/judging.h"
#include "tests/partition/stages/support/oracle.h"
#include "tests/partition/stages/support/profiles.h"
#include "tests/partition/stages/support/random_problem.h"

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

TEST(PipelineLatency, CreditBehindThePivot) {
  // As printed the last stage has been done for 8 + 4 + 2 when the pivot ends; between the two lie only 4.
  const std::vector<LatencyStage> stages{{4, 8, 0}, {2, 4, 0}, {1, 2, 30}};
  EXPECT_DOUBLE_EQ(pipeline_latency(stages, 10, EndingCredit::kPrinted), 4 + 9 * 12 + 30 - 14);
  EXPECT_DOUBLE_EQ(pipeline_latency(stages, 10, EndingCredit::kBetween), 4 + 9 * 12 + 30 - 4);
}

// L is at least the steady phase of any stage plus the first stage once: what the search leaves out on that ground is
// never better.
TEST(PipelineLatency, IsBoundedByEveryStage) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<LatencyStage> stages(1 + random() % 7);
    for (LatencyStage& stage : stages) {
      stage = {static_cast<double>(random() % 20), static_cast<double>(random() % 20),
               static_cast<double>(random() % 50)};
    }
    const uint64_t count = 1 + random() % 12;
    const double latency = pipeline_latency(stages, count);
    const double first = stages[0].forward + stages[0].backward;
    for (const LatencyStage& stage : stages) {
      const double steady = static_cast<double>(count - 1) * (stage.forward + stage.backward);
      EXPECT_GE(latency, first + steady) << "round " << round;
    }
  }
}

StageProblem two_halves() {
  StageProblem problem;
  problem.blocks = 4;
  problem.times.push_back({{1}, {{2, 2, 1, 3}}, {{2, 2, 1, 3}}});
  problem.parameter_bytes = {1e6, 1e6, 1e6, 1e6};
  problem.stashed_bytes_per_sample.assign(4, 0);
  problem.values = {{0, {1}, 40, 0, true}, {1, {2}, 40, 0, true}, {2, {3}, 0.01, 0, true}};
  problem.optimizer_factor = 0;
  problem.cluster = make_cluster("two", {"d", 1ull << 62, 1e18, 1e18, 0}, 1, 2, {1e9, 0}, {1e9, 0});
  problem.mini_batch = 4;
  problem.micro_batches = {4};
  return problem;
}

// D7: 4 + 4 would move a large activation each time, 5 + 3 moves nothing to speak of; among all plans none is faster.
TEST(DapplePlanner, UnevenSplitIsOptimal) {
  const StageProblem problem = two_halves();
  const auto outcome = dapple_planner()->plan(problem);
  const auto& plan = std::get<StagePlan>(*outcome);
  EXPECT_EQ(brief(plan), "1:1 at 3");
  PlanJudge judge(problem);
  int others = 0;
  bool even = false;
  testing::for_each_plan(problem, [&](const std::vector<testing::OracleStage>& stages, uint64_t count, uint32_t) {
    for (const char* schedule : {"gpipe", "1f1b", "dapple-b"}) {
      StagePlan other;
      other.micro_batches = count;
      other.schedule = schedule;
      for (const auto& from : stages) {
        PlannedStage stage;
        stage.first = from.first;
        stage.end = from.end;
        for (uint32_t d = from.from; d < from.to; ++d) stage.devices.push_back(DeviceId(d));
        other.stages.push_back(stage);
      }
      const auto time = testing::judge(judge, other);
      if (!time) continue;
      ++others;
      if (brief(other) == brief(plan)) {
        EXPECT_GE(*time, plan.objective);
      } else {
        EXPECT_GT(*time, plan.objective * 1.05) << brief(other) << ' ' << schedule;
      }
      even = even || brief(other) == "1:1 at 2";
    }
  });
  EXPECT_TRUE(even);
  EXPECT_GE(others, 12);
}

// A stage on devices 0-2 and one on 3-15 of two machines exchange over the network, though devices 2 and 3 are
// neighbours.
TEST(DapplePlanner, HopsRunAtTheSlowestLink) {
  const Cluster cluster = preset_cluster("dapple-a").value();
  const auto range = [](uint32_t from, uint32_t to) {
    std::vector<DeviceId> devices;
    for (uint32_t d = from; d < to; ++d) devices.push_back(DeviceId(d));
    return devices;
  };
  EXPECT_EQ(slowest_link_between(cluster, range(0, 3), range(3, 16)), cluster.between);
  EXPECT_EQ(slowest_link_between(cluster, range(0, 8), range(8, 16)), cluster.between);
  EXPECT_EQ(slowest_link_between(cluster, range(0, 3), range(3, 8)), cluster.nodes[0].inside);
  Cluster unequal = cluster;
  unequal.device_links[{1, 5}] = {1e6, 7};
  EXPECT_EQ(slowest_link_between(unequal, range(0, 3), range(3, 8)), (Link{1e6, 5000}));
}

// Two machines of two: all sets that the policies and their mixes reach.
TEST(DeviceSetGraph, HoldsTheCompositions) {
  const DeviceSetGraph graph(make_cluster("four", {"d", 1, 1, 1, 0}, 2, 2, {1, 0}, {1, 0}), 100);
  EXPECT_TRUE(graph.all_counts());
  // {}, {0}, {0 1} by Append First, {0 2} by Scatter or Fresh First, {0 1 2}, and {0 2 3} by Fresh First after {0}.
  EXPECT_EQ(graph.sets(), 6u);
  for (uint32_t set = 0; set < graph.sets(); ++set) {
    for (const auto& pick : graph.picks(set)) {
      EXPECT_EQ(graph.rest(pick.set).size() + graph.group(pick.group).size(), graph.rest(set).size());
      EXPECT_FALSE(graph.rest(pick.set).empty());
    }
  }
  EXPECT_FALSE(DeviceSetGraph(preset_cluster("flat:64").value(), 300).all_counts());
}

/// `counts`: of micro-batches; empty: all powers of two.
StageProblem published(const char* file, const char* preset, uint64_t mini_batch, std::vector<uint64_t> counts = {}) {
  const auto profile = testing::shared_profile(std::string("dapple/") + file);
  StageProblem problem =
      profile_problem(*profile, *preset_cluster(preset),
                      {.profile_batch = profile_batch_of(file).value_or(1), .mini_batch = mini_batch})
          .value();
  problem.micro_batches = std::move(counts);
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory_bytes = 1ull << 45;
  return problem;
}

std::string shape(const StageOutcome& outcome) { return brief(std::get<StagePlan>(outcome)); }

#define RANNC_NEEDS_DATA() \
  if (!testing::shared_profile("dapple/bert-48-pbs-2.txt")) GTEST_SKIP() << "no shared data at hand"

// Table 4: a machine for each half. The formula would rather part the first machine (4:4:8, by 2.6 %) but for the
// bubbles inside the pivot that it leaves out; with two stages it finds the paper's plan, four layers of 48 from it.
TEST(DapplePlanner, Bert48OnClusterA) {
  RANNC_NEEDS_DATA();
  StageProblem problem = published("bert-48-pbs-2.txt", "dapple-a", 64, {4});
  problem.constraints.max_stages = 2;
  const auto outcome = dapple_planner({.choice = DappleChoice::kLatency})->plan(problem);
  const auto& plan = std::get<StagePlan>(*outcome);
  EXPECT_EQ(brief(plan), "8:8 at 29");
  EXPECT_EQ(plan.stages[0].devices.back(), DeviceId(7));
}

// Tables 4 and 6, over all micro-batch counts.
TEST(DapplePlanner, Xlnet36OnClusterA) {
  RANNC_NEEDS_DATA();
  const StageProblem problem = published("xlnet-36-pbs-1.txt", "dapple-a", 128);
  for (const DappleChoice choice : {DappleChoice::kSimulated, DappleChoice::kLatency}) {
    EXPECT_EQ(shape(*dapple_planner({.choice = choice})->plan(problem)), "8:8 at 24");
  }
}

// Table 4: straight where the network is slow, by the formula.
TEST(DapplePlanner, Bert48OnClustersBAndCIsStraight) {
  RANNC_NEEDS_DATA();
  for (const char* preset : {"dapple-b", "dapple-c"}) {
    const auto outcome =
        dapple_planner({.choice = DappleChoice::kLatency})->plan(published("bert-48-pbs-2.txt", preset, 64));
    EXPECT_EQ(std::get<StagePlan>(*outcome).stages.size(), 16u);
  }
}

// Table 4: all but the fully connected layers on 15 devices.
TEST(DapplePlanner, Vgg19OnClusterC) {
  RANNC_NEEDS_DATA();
  EXPECT_EQ(shape(*dapple_planner()->plan(published("vgg-19-pbs-32.txt", "dapple-c", 2048))), "15:1 at 21");
}

TEST(DapplePlanner, KeepsConstraintsAndMemoryOnRandomProblems) {
  int found = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    StageProblem problem =
        testing::random_problem(random, {.unequal = seed % 2 == 1, .tight = seed % 3 == 0, .skips = true});
    const auto outcome = dapple_planner()->plan(problem);
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    const auto* plan = std::get_if<StagePlan>(&*outcome);
    if (plan == nullptr) continue;
    ++found;
    EXPECT_TRUE(verify_plan(problem, *plan).ok());
    EXPECT_GE(plan->objective, plan->lower_bound);
    EXPECT_EQ(*plan, std::get<StagePlan>(*dapple_planner()->plan(problem)));
  }
  EXPECT_GT(found, 150);
}

// Beyond 16 devices and long chains the search narrows, and says so.
TEST(DapplePlanner, TakesLargeProblems) {
  StageProblem problem;
  problem.blocks = 600;
  problem.times.push_back({{1}, {std::vector<double>(600, 1e6)}, {std::vector<double>(600, 2e6)}});
  problem.parameter_bytes.assign(600, 1e6);
  problem.stashed_bytes_per_sample.assign(600, 1e5);
  for (uint32_t b = 0; b + 1 < 600; ++b) problem.values.push_back({b, {b + 1}, 1e5, 0, true});
  problem.cluster = preset_cluster("flat:128").value();
  problem.mini_batch = 256;
  problem.micro_batches = {32};
  const auto outcome = dapple_planner()->plan(problem);
  const auto& plan = std::get<StagePlan>(*outcome);
  EXPECT_EQ(plan.notes.size(), 3u);
  EXPECT_LT(plan.gap(), 1.0) << brief(plan);
}

}  // namespace
}  // namespace rannc::partition
