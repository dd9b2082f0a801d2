/// Finds the cycle of a graph with the least ratio of time to batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rannc::partition {

/// A directed graph by source: the edges of node v are `edges[first[v]]` to `edges[first[v + 1]]`.
struct RatioGraph {
  struct Edge {
    uint32_t to = 0;
    uint8_t time = 0, batches = 0;
  };
  std::vector<size_t> first{0};
  std::vector<Edge> edges;

  size_t size() const { return first.size() - 1; }
};

struct RatioCycle {
  uint64_t time = 0, batches = 0;
  std::vector<uint32_t> nodes;  ///< in order; empty: there is no cycle

  bool less_than(const RatioCycle& other) const { return time * other.batches < other.time * batches; }
};

/// Returns a cycle with the least ratio among the nodes that are reachable from node 0 and from which node 0 is
/// reachable. All nodes must be reachable from node 0, and every cycle must have a batch.
///
/// Howard's policy iteration in integers. It ends with distances to the cycle under which no edge is a shorter way,
/// which proves that no cycle has a smaller ratio. A few rounds over all edges in practice.
RatioCycle least_ratio_cycle(const RatioGraph& graph);

}  // namespace rannc::partition
