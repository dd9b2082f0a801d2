/// Removes lost devices from a cluster.
#pragma once

#include <vector>

#include "partition/cluster.h"

namespace rannc::partition {

/// What is left of a cluster.
struct RemainingCluster {
  Cluster cluster;            ///< the other devices in the same order, with their nodes and links
  std::vector<DeviceId> now;  ///< by old device: its id in `cluster`; not valid: it is lost
};

/// Removes the devices `lost` (distinct, not all) and nodes without any other device. Names are unchanged.
RemainingCluster without(const Cluster& cluster, const std::vector<DeviceId>& lost);

}  // namespace rannc::partition
