/// Assigns devices to stages with little traffic between nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cluster.h"

namespace rannc::partition {

/// Traffic of stages in one step; indices are stages.
struct PlacementTraffic {
  struct Edge {
    uint32_t from = 0, to = 0;
    double bytes = 0;  ///< of a whole mini-batch, sum of both directions
  };
  std::vector<Edge> edges;
  std::vector<double> gradient_bytes;  ///< per stage: size of the all-reduce over its replicas
};

/// Devices of each stage, in replica order. Replica r of n processes the samples [r/n, (r+1)/n) of each micro-batch.
using StageDevices = std::vector<std::vector<DeviceId>>;

/// Returns the summed time that links spend on one step: each message over the link between its two replicas, and for
/// each stage a ring all-reduce paced by the slowest link among its replicas. Ignores overlap and contention; a measure
/// for placement only.
double placement_cost(const Cluster& cluster, const PlacementTraffic& traffic, const StageDevices& devices);

/// Returns the bytes that cross between nodes in one step, counted the same way.
double bytes_between_nodes(const Cluster& cluster, const PlacementTraffic& traffic, const StageDevices& devices);

/// Places stages with the given replica counts on devices of one kind of `cluster`. Takes the cheaper of two layouts,
/// stages one after another or whole pipelines one after another (by the greatest common divisor of the counts). Then
/// exchanges pairs of devices while that lowers the cost. Deterministic; greedy, not optimal. The counts sum to at most
/// the cluster's size. Devices of different kinds are not exchanged. O(rounds * devices^2 * edges).
StageDevices place(const Cluster& cluster, const PlacementTraffic& traffic, const std::vector<uint32_t>& replicas);

/// Improves a given placement by exchanges only, including with free devices.
StageDevices improve_placement(const Cluster& cluster, const PlacementTraffic& traffic, StageDevices devices);

}  // namespace rannc::partition
