// Stages on devices: replicas where links are fast, neighbours on a node.
#include "partition/placement/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace rannc::partition {
namespace {

// Heavy parameters, small activations: the replicas of each stage share a node.
TEST(Placement, ReplicasStayTogetherWhenGradientsAreHeavy) {
  const Cluster cluster = *preset_cluster("dapple-a");
  const PlacementTraffic traffic{{{0, 1, 1e6}}, {1e9, 1e9}};
  const StageDevices devices = place(cluster, traffic, {8, 8});
  for (const auto& stage : devices) {
    for (const DeviceId device : stage) EXPECT_EQ(cluster.devices[device.index()].node, cluster.devices[stage[0].index()].node);
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

}  // namespace
}  // namespace rannc::partition
