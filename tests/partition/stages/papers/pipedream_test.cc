// PipeDream's hierarchical DP against the bottlenecks of its released program.
#include "partition/stages/papers/pipedream.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/partition/stages/support/profiles.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

struct Golden {
  const char* file;
  std::vector<PipedreamLevel> levels;
  bool straight;
  double bottleneck_s;
  std::string replicas = "";  ///< of the stages, where they are known
};

std::string replicas_of(const PipedreamPlan& plan) {
  std::string text;
  for (const PipedreamStage& stage : plan.stages) text += (text.empty() ? "" : ":") + std::to_string(stage.replicas);
  return text;
}

/// Time of a stage of the states after `from` (-1: from the start) up to `to`, on m machines. Messages at its ends
/// count unless it is the only stage.
double stage_s(const CutStates& states, int from, uint32_t to, uint32_t m, bool only, double bandwidth) {
  const auto before = [&](const std::vector<double>& sums) { return from < 0 ? 0 : sums[static_cast<size_t>(from)]; };
  const double compute = states.compute_s[to] - before(states.compute_s);
  const double bytes = states.parameter_bytes[to] - before(states.parameter_bytes);
  double time = (compute + 4.0 * (m - 1) * bytes / (bandwidth * m)) / m;
  if (!only && from >= 0) time = std::max(time, 2 * states.output_bytes[static_cast<size_t>(from)] / (bandwidth * m));
  if (!only && to + 1 < states.size()) time = std::max(time, 2 * states.output_bytes[to] / (bandwidth * m));
  return time;
}

TEST(Pipedream, BottlenecksOfThePublishedProfiles) {
  const Golden goldens[] = {
      {"vgg16", {{4, 1e9}}, false, 0.205521, "3:1"},
      {"vgg16", {{8, 1e9}}, false, 0.103833},
      {"vgg16", {{16, 1.25e9}}, false, 0.054795},
      {"vgg16", {{4, 1e9}}, true, 0.411042},
      {"vgg16", {{8, 1.3e10}, {2, 1.25e9}}, false, 0.082208},
      {"alexnet", {{4, 1e9}}, false, 0.034217},
      {"alexnet", {{16, 1.25e9}}, false, 0.015099},
      {"resnet18", {{4, 1e9}}, false, 0.100004},
      {"resnet50", {{4, 1e9}}, false, 0.162881},
      {"resnet50", {{16, 1.25e9}}, false, 0.043848},
      {"resnet50", {{8, 1.3e10}, {2, 1.25e9}}, false, 0.038180},
      {"resnet101", {{4, 1e9}}, false, 0.116555},
      {"resnet101", {{4, 1e10}, {4, 1e9}}, false, 0.059397},
      {"squeezenet1_0", {{16, 1.25e9}}, false, 0.018772},
      {"gnmt", {{4, 1e9}}, false, 0.025868},
  };
  for (const Golden& golden : goldens) {
    const auto profile = testing::shared_profile(std::string("pipedream/") + golden.file + ".txt");
    if (!profile) GTEST_SKIP() << "no shared data at hand";
    const CutStates states = cut_states(*profile).value();
    EXPECT_TRUE(states.complete);
    const PipedreamPlan plan = pipedream_dp(states, golden.levels, {.straight = golden.straight});
    EXPECT_NEAR(plan.bottleneck_s, golden.bottleneck_s, 1e-6) << golden.file << " on " << golden.levels[0].machines;
    if (!golden.replicas.empty()) EXPECT_EQ(replicas_of(plan), golden.replicas) << golden.file;
  }
}

// By hand: five of six equal layers (120 ms, 3.41 MB together) on three machines, the sixth and the dense ones on one.
TEST(Pipedream, BottleneckOfTheCheckedInProfile) {
  const CutStates states = cut_states(testing::checked_in_profile("convolutions-pbs-4.txt")).value();
  EXPECT_TRUE(states.complete);
  EXPECT_EQ(states.size(), 8u) << "a chain without its input";
  const PipedreamPlan plan = pipedream_dp(states, {{4, 1e9}});
  EXPECT_NEAR(plan.bottleneck_s, (5 * 0.120 + 4 * 2 * 3.41e6 / (3 * 1e9)) / 3, 1e-9);
  EXPECT_NEAR(pipedream_dp(states, {{4, 1e9}}, {.straight = true}).bottleneck_s, 0.240, 1e-9);
  EXPECT_NEAR(pipedream_dp(states, {{1, 1e9}}).bottleneck_s, 0.7245, 1e-9);
}

TEST(Pipedream, StateCountsOfTheReleasedProgram) {
  const std::pair<const char*, uint32_t> counts[] = {
      {"pipedream/alexnet.txt", 22},    {"pipedream/vgg16.txt", 40},       {"pipedream/squeezenet1_0.txt", 99},
      {"pipedream/resnet18.txt", 100},  {"pipedream/resnet50.txt", 240},   {"pipedream/resnet101.txt", 410},
      {"pipedream/gnmt.txt", 99},       {"dapple/bert-48-pbs-2.txt", 55},  {"dapple/gnmt-16-pbs-64.txt", 1495},
      {"dapple/vgg-19-pbs-32.txt", 25}, {"dapple/xlnet-36-pbs-1.txt", 41}, {"dapple/amoeba-18-pbs-8.txt", 25},
  };
  for (const auto& [file, count] : counts) {
    const auto profile = testing::shared_profile(file);
    if (!profile) GTEST_SKIP() << "no shared data at hand";
    EXPECT_EQ(cut_states(*profile)->size(), count) << file;
  }
}

// Wide graphs: more down-sets than allowed, so prefixes of one order; still planned, on all machines, faster than data
// parallelism and than a stage on each machine, and within a stated distance of perfect balance.
TEST(Pipedream, WideGraphsArePlannedWithoutExplosion) {
  const std::pair<const char*, double> files[] = {{"inception_v3", 1.55}, {"nasnetamobile", 1.22}};
  for (const auto& [file, most] : files) {
    const auto profile = testing::shared_profile("pipedream/" + std::string(file) + ".txt");
    if (!profile) GTEST_SKIP() << "no shared data at hand";
    const CutStates states = cut_states(*profile).value();
    EXPECT_FALSE(states.complete);
    const double compute = states.compute_s.back();
    for (const uint32_t machines : {4u, 8u, 16u}) {
      SCOPED_TRACE(std::string(file) + " on " + std::to_string(machines));
      const PipedreamPlan plan = pipedream_dp(states, {{machines, 1e9}});
      const PipedreamPlan straight = pipedream_dp(states, {{machines, 1e9}}, {.straight = true});
      uint32_t used = 0, next = 0;
      double slowest = 0;
      for (const PipedreamStage& stage : plan.stages) {
        EXPECT_EQ(stage.from, next);
        next = stage.to;
        used += stage.replicas;
        slowest = std::max(slowest, stage_s(states, static_cast<int>(stage.from) - 1, stage.to - 1, stage.replicas,
                                            stage.from == 0, 1e9));
      }
      EXPECT_EQ(used, machines);
      EXPECT_EQ(next, states.size());
      EXPECT_NEAR(plan.bottleneck_s, slowest, 1e-9);
      EXPECT_GE(plan.bottleneck_s * machines, compute * (1 - 1e-9));
      EXPECT_LE(plan.bottleneck_s * machines, compute * most);
      EXPECT_LT(plan.bottleneck_s, stage_s(states, -1, states.size() - 1, machines, true, 1e9));
      EXPECT_LT(plan.bottleneck_s, straight.bottleneck_s);
    }
  }
}

double by_force(const CutStates& states, uint32_t j, uint32_t machines, double bandwidth) {
  double best = stage_s(states, -1, j, machines, true, bandwidth);
  for (const uint32_t k : states.before[j]) {
    for (uint32_t m = 1; m < machines; ++m) {
      best = std::min(best, std::max(by_force(states, k, machines - m, bandwidth),
                                     stage_s(states, static_cast<int>(k), j, m, false, bandwidth)));
    }
  }
  return best;
}

// A twin of such graphs: twelve chains of twelve layers have 13^12 down-sets.
TEST(Pipedream, ParallelChainsArePlannedWithoutExplosion) {
  PipedreamProfile profile;
  const auto node = [&](double forward) {
    profile.nodes.push_back({"node" + std::to_string(profile.nodes.size() + 1), "", forward, 2 * forward, {1e3}, 1e3});
    return static_cast<uint32_t>(profile.nodes.size() - 1);
  };
  const uint32_t source = node(1);
  std::vector<uint32_t> ends;
  for (int chain = 0; chain < 12; ++chain) {
    uint32_t before = source;
    for (int layer = 0; layer < 12; ++layer) {
      const uint32_t next = node(1);
      profile.edges.emplace_back(before, next);
      before = next;
    }
    ends.push_back(before);
  }
  const uint32_t sink = node(1);
  for (const uint32_t end : ends) profile.edges.emplace_back(end, sink);
  const CutStates states = cut_states(profile).value();
  EXPECT_FALSE(states.complete);
  EXPECT_GE(states.size(), profile.nodes.size()) << "at least the prefixes of one order";
  const PipedreamPlan plan = pipedream_dp(states, {{8, 1e12}});
  // 146 layers of 3 ms on 8 machines; links cost next to nothing, and stages part between layers.
  EXPECT_GE(plan.bottleneck_s, 146 * 3e-3 / 8 * (1 - 1e-6));
  EXPECT_LE(plan.bottleneck_s, 146 * 3e-3 / 8 * 1.1);
}

TEST(Pipedream, EqualsItsRecursionOnRandomChains) {
  for (int i = 0; i < 300; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 31);
    CutStates states;
    const uint32_t n = 1 + static_cast<uint32_t>(random() % 6), machines = 1 + static_cast<uint32_t>(random() % 5);
    for (uint32_t s = 0; s < n; ++s) {
      const double before = s == 0 ? 0 : states.compute_s[s - 1], bytes = s == 0 ? 0 : states.parameter_bytes[s - 1];
      states.compute_s.push_back(before + static_cast<double>(random() % 20));
      states.parameter_bytes.push_back(bytes + static_cast<double>(random() % 20));
      states.output_bytes.push_back(static_cast<double>(random() % 20));
      states.before.emplace_back();
      for (uint32_t k = 0; k < s; ++k) states.before.back().push_back(k);
    }
    const PipedreamPlan plan = pipedream_dp(states, {{machines, 3}});
    ASSERT_NEAR(plan.bottleneck_s, by_force(states, n - 1, machines, 3), 1e-9) << "instance " << i;
    uint32_t used = 0;
    for (const PipedreamStage& stage : plan.stages) used += stage.replicas;
    ASSERT_EQ(used, machines);
  }
}

TEST(PipedreamPlanner, PlansOnHierarchicalClusters) {
  std::mt19937_64 random(5);
  StageProblem problem = testing::random_problem(random, {.most_blocks = 8});
  problem.cluster = *preset_cluster("rannc-4x8");
  problem.times.resize(1);
  problem.mini_batch = 256;
  problem.micro_batches = {1, 4};
  problem.constraints = {};
  const auto outcome = pipedream_planner()->plan(problem);
  ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  const auto& plan = std::get<StagePlan>(*outcome);
  size_t used = 0;
  for (const PlannedStage& stage : plan.stages) used += stage.devices.size();
  EXPECT_EQ(used, 32u);
  EXPECT_GE(plan.objective, plan.lower_bound);
}

}  // namespace
}  // namespace rannc::partition
