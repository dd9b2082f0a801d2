/// Clusters the nodes of one level by moving single nodes between ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

struct ClusterLimits {
  double work = 0;               ///< largest work of a cluster of two or more
  uint64_t memory = UINT64_MAX;  ///< largest memory of a cluster of two or more
};

/// Every node starts as a cluster of its own, whose rank is its place in `order`. A node that is still alone may join
/// the cluster of its latest predecessor or its earliest successor, whichever shares more cost with it per work of the
/// cluster, if its window of ranks allows. Every edge then still goes to the same or a higher rank, so any number of
/// such moves leaves the quotient acyclic. If `block_of` is not empty, only nodes of one block join, and `order` must
/// be sorted by block. `moved` (may be empty) is called after each move with the ranks. Returns the group of each node,
/// numbered topologically, and sets `groups`. O(pins).
std::vector<uint32_t> cluster_by_rank(const LevelGraph& graph, std::span<const uint32_t> order,
                                      std::span<const uint32_t> block_of, const ClusterLimits& limits,
                                      uint32_t least_groups, uint32_t& groups,
                                      const std::function<void(const std::vector<uint32_t>&)>& moved);

}  // namespace rannc::partition
