// Stages on devices: replicas where links are fast, neighbours on a node.
#include "partition/placement/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace rannc::partition {
namespace {

// Heavy parameters, small activations: the replicas of each stage share a node.
TEST(Placement, ReplicasStayTogetherWhenGradientsAreHeavy) {
  const Cluster cluster = *preset_cluster("dapple-a");
  const PlacementTraffic traffic{{{0, 1, 1e6}}, {1e9, 1e9}};
  const StageDevices devices = place(cluster, traffic, {8, 8});
  for (const auto& stage : devices) {
    for (const DeviceId device : stage)
      EXPECT_EQ(cluster.devices[device.index()].node, cluster.devices[stage[0].index()].node);
  }
}

// Huge activations, no parameters to speak of: every replica sits beside the one it feeds.
TEST(Placement, NeighboursStayTogetherWhenActivationsAreHeavy) {
  const Cluster cluster = *preset_cluster("dapple-a");
  const PlacementTraffic traffic{{{0, 1, 1e11}}, {1e3, 1e3}};
  const StageDevices devices = place(cluster, traffic, {8, 8});
  for (size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(cluster.devices[devices[0][r].index()].node, cluster.devices[devices[1][r].index()].node);
  }
  EXPECT_LT(bytes_between_nodes(cluster, traffic, devices), 1e6);
}

// A straight pipeline over four nodes crosses three times, whatever the order of devices was.
TEST(Placement, StraightPipelineCrossesEachNodeOnce) {
  const Cluster cluster = *preset_cluster("rannc-4x8");
  PlacementTraffic traffic;
  StageDevices shuffled;
  std::vector<DeviceId> all;
  for (uint32_t d = 0; d < 32; ++d) all.push_back(DeviceId(d));
  std::shuffle(all.begin(), all.end(), std::mt19937_64(4));
  for (uint32_t s = 0; s < 32; ++s) {
    if (s > 0) traffic.edges.push_back({s - 1, s, 1e8});
    traffic.gradient_bytes.push_back(0);
    shuffled.push_back({all[s]});
  }
  const StageDevices devices = place(cluster, traffic, std::vector<uint32_t>(32, 1));
  EXPECT_DOUBLE_EQ(bytes_between_nodes(cluster, traffic, devices), 3e8);
  EXPECT_LE(bytes_between_nodes(cluster, traffic, improve_placement(cluster, traffic, shuffled)),
            bytes_between_nodes(cluster, traffic, shuffled));
}

TEST(Placement, NeverDearerThanStagesOneAfterTheOther) {
  for (int i = 0; i < 200; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 60);
    const Cluster cluster = make_cluster("r", {"d", 1, 1, 1, 0}, 1 + static_cast<uint32_t>(random() % 3),
                                         1 + static_cast<uint32_t>(random() % 4), {1e10, 10}, {1e9, 100});
    std::vector<uint32_t> replicas;
    uint32_t left = cluster.size();
    while (left > 0 && replicas.size() < 4) {
      replicas.push_back(1 + static_cast<uint32_t>(random() % left));
      left -= replicas.back();
    }
    PlacementTraffic traffic;
    StageDevices plain;
    uint32_t next = 0;
    for (uint32_t s = 0; s < replicas.size(); ++s) {
      traffic.gradient_bytes.push_back(static_cast<double>(random() % 1000) * 1e5);
      if (s > 0) traffic.edges.push_back({s - 1, s, static_cast<double>(random() % 1000) * 1e5});
      plain.emplace_back();
      for (uint32_t r = 0; r < replicas[s]; ++r) plain.back().push_back(DeviceId(next++));
    }
    const StageDevices devices = place(cluster, traffic, replicas);
    ASSERT_LE(placement_cost(cluster, traffic, devices), placement_cost(cluster, traffic, plain) * (1 + 1e-9));
    std::vector<char> used(cluster.size(), 0);
    for (size_t s = 0; s < replicas.size(); ++s) {
      ASSERT_EQ(devices[s].size(), replicas[s]);
      for (const DeviceId device : devices[s]) ASSERT_EQ(used[device.index()]++, 0);
    }
  }
}

/// The least cost of all ways to give the stages their devices, in any replica order.
double least_cost(const Cluster& cluster, const PlacementTraffic& traffic, const std::vector<uint32_t>& replicas) {
  std::vector<uint32_t> order(cluster.size());
  std::iota(order.begin(), order.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  do {
    StageDevices devices(replicas.size());
    size_t next = 0;
    for (size_t s = 0; s < replicas.size(); ++s) {
      for (uint32_t r = 0; r < replicas[s]; ++r) devices[s].push_back(DeviceId(order[next++]));
    }
    least = std::min(least, placement_cost(cluster, traffic, devices));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

// Against every placement of up to six devices on two or three nodes: greedy exchanges reach the optimum mostly.
TEST(Placement, IsMostlyTheBestOfAllPlacements) {
  int best = 0, all = 0;
  double worst = 1;
  for (int i = 0; i < 150; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 900);
    const uint32_t nodes = 2 + static_cast<uint32_t>(random() % 2);
    const Cluster cluster = make_cluster("r", {"d", 1, 1, 1, 0}, nodes, nodes == 2 ? 3 : 2, {1e10, 10}, {1e9, 100});
    PlacementTraffic traffic;
    std::vector<uint32_t> replicas;
    for (uint32_t left = cluster.size(); left > 0 && replicas.size() < 3;) {
      replicas.push_back(1 + static_cast<uint32_t>(random() % left));
      left -= replicas.back();
      const auto s = static_cast<uint32_t>(traffic.gradient_bytes.size());
      traffic.gradient_bytes.push_back(static_cast<double>(random() % 1000) * 1e5);
      for (uint32_t from = 0; from < s; ++from) {
        traffic.edges.push_back({from, s, static_cast<double>(random() % 1000) * 1e5});
      }
    }
    const double least = least_cost(cluster, traffic, replicas);
    const double found = placement_cost(cluster, traffic, place(cluster, traffic, replicas));
    ASSERT_GE(found, least * (1 - 1e-9));
    ++all;
    best += found <= least * (1 + 1e-9);
    worst = std::max(worst, found / least);
  }
  EXPECT_GE(best, 0.9 * all);
  EXPECT_LE(worst, 1.5);
}

}  // namespace
}  // namespace rannc::partition
