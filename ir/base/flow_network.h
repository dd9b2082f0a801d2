/// Computes maximum flows by Dinic's algorithm.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace rannc::ir {

/// A directed network whose capacities are `double` or `int64_t`. Not thread-safe. `reset` keeps the storage, for use
/// with many small instances.
template <class Capacity>
class FlowNetwork {
 public:
  static constexpr Capacity kUncuttable =
      std::is_integral_v<Capacity> ? std::numeric_limits<Capacity>::max() / 2 : static_cast<Capacity>(1e300);

  void reset(uint32_t nodes);
  /// Returns the new node, numbered by the count of nodes before.
  uint32_t add_node();
  /// Adds an edge from -> to with `capacity` >= 0, and `back` in the other direction.
  void add_edge(uint32_t from, uint32_t to, Capacity capacity, Capacity back = 0);
  /// Returns the value of a minimum cut between source and sink (Dinic). Flows below `tolerance` are dropped, so the
  /// value may be too small by that times the number of augmentations, but never too large. Returns early once it
  /// exceeds `enough`. If called again after more edges were added, continues and returns the increase.
  Capacity min_cut(uint32_t source, uint32_t sink, Capacity tolerance = 0, Capacity enough = kUncuttable);
  /// Number of edges examined by all searches so far, a measure of work.
  uint64_t steps() const { return steps_; }
  /// After `min_cut`: nodes on the source's side of the smallest minimum cut.
  std::vector<bool> source_side(uint32_t source, Capacity tolerance = 0) const;
  /// After `min_cut`: nodes not on the sink's side of the largest minimum cut.
  std::vector<bool> not_sink_side(uint32_t sink, Capacity tolerance = 0) const;

 private:
  struct Edge {
    uint32_t to;
    uint32_t next;
    Capacity residual;
  };
  /// Nodes that residual edges reach from `start` (kAlong), or from which they reach it (kAgainst).
  std::vector<bool> joined(uint32_t start, uint32_t direction, Capacity tolerance) const;
  bool label(uint32_t source, uint32_t sink, Capacity tolerance);
  Capacity push(uint32_t source, uint32_t sink, Capacity tolerance);

  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kAlong = 0, kAgainst = 1;  // an edge, or its neighbour, the reverse
  uint64_t steps_ = 0;
  std::vector<uint32_t> first_;
  std::vector<Edge> edges_;  // an edge and its reverse are neighbours
  std::vector<uint32_t> level_, current_, queue_, path_;
};

extern template class FlowNetwork<double>;
extern template class FlowNetwork<int64_t>;

}  // namespace rannc::ir
