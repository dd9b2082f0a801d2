/// Which devices run which stage, so that little crosses between nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cluster.h"

namespace rannc::partition {

/// What stages move in one step; indices are stages.
struct PlacementTraffic {
  struct Edge {
    uint32_t from = 0, to = 0;
    double bytes = 0;  ///< of a whole mini-batch, both directions together
  };
  std::vector<Edge> edges;
  std::vector<double> gradient_bytes;  ///< per stage: what an all-reduce over its replicas sums
};

/// Devices of each stage, in replica order; replica r of n works on the samples [r/n, (r+1)/n) of each micro-batch.
using StageDevices = std::vector<std::vector<DeviceId>>;

/// Time that links spend on one step, summed: every message over the link of its two replicas, and for each stage a
/// ring all-reduce paced by the slowest link among its replicas. Neither overlap nor contention: a measure for
/// placement only.
double placement_cost(const Cluster& cluster, const PlacementTraffic& traffic, const StageDevices& devices);

/// Bytes that cross between nodes in one step, counted alike.
double bytes_between_nodes(const Cluster& cluster, const PlacementTraffic& traffic, const StageDevices& devices);

/// Stages of the given replica counts on devices of one kind of `cluster`: the cheaper of stages one after the other
/// and whole pipelines one after the other (by the greatest common divisor of the counts), then exchanges of two
/// devices while that lowers the cost. Deterministic; greedy, not optimal. The counts sum to at most the cluster's
/// size; devices of another kind than the current one are not exchanged. O(rounds * devices^2 * edges).
StageDevices place(const Cluster& cluster, const PlacementTraffic& traffic, const std::vector<uint32_t>& replicas);

/// Only the exchanges, from a given placement; free devices take part.
StageDevices improve_placement(const Cluster& cluster, const PlacementTraffic& traffic, StageDevices devices);

}  // namespace rannc::partition
