// Clusters without lost devices.
#include "partition/remaining_cluster.h"

#include <gtest/gtest.h>

namespace rannc::partition {
namespace {

Cluster three_nodes() {
  Cluster cluster = make_cluster("three", {"k0", 1ULL << 30, 1e12, 1e12, 0}, 3, 2, {4e9, 1}, {1e9, 2});
  cluster.node_links[{0, 2}] = {2e9, 3};
  cluster.node_links[{1, 2}] = {3e9, 3};
  cluster.device_links[{1, 5}] = {5e9, 4};
  cluster.device_links[{2, 3}] = {6e9, 4};
  return cluster;
}

TEST(RemainingCluster, KeepsNamesNodesAndLinksOfTheOthers) {
  const Cluster all = three_nodes();
  const RemainingCluster rest = without(all, {DeviceId(3), DeviceId(2), DeviceId(4)});
  EXPECT_EQ(rest.now,
            (std::vector<DeviceId>{DeviceId(0), DeviceId(1), DeviceId(), DeviceId(), DeviceId(), DeviceId(2)}));
  ASSERT_EQ(rest.cluster.size(), 3U);
  ASSERT_EQ(rest.cluster.nodes.size(), 2U);
  EXPECT_EQ(rest.cluster.nodes[1].name, "node2");
  for (uint32_t d = 0; d < all.size(); ++d) {
    if (!rest.now[d].valid()) continue;
    EXPECT_EQ(rest.cluster.devices[rest.now[d].index()].name, all.devices[d].name);
    for (uint32_t e = 0; e < d; ++e) {
      if (rest.now[e].valid())
        EXPECT_EQ(rest.cluster.link(rest.now[e], rest.now[d]), all.link(DeviceId(e), DeviceId(d)));
    }
  }
}

TEST(RemainingCluster, WithoutTheLastDevicesIsTheFirstPart) {
  const Cluster all = three_nodes();
  for (uint32_t count = 1; count <= 6; ++count) {
    std::vector<DeviceId> lost;
    for (uint32_t d = count; d < 6; ++d) lost.push_back(DeviceId(d));
    EXPECT_EQ(without(all, lost).cluster, all.first(count));
  }
}

}  // namespace
}  // namespace rannc::partition
