/// Computes minimum cuts of directed networks.
#pragma once

#include <cstdint>
#include <vector>

namespace rannc::ir {

/// A directed network with integer capacities, so that sums are exact. The value of a minimum cut must be below 2^62.
class CutNetwork {
 public:
  explicit CutNetwork(uint32_t nodes) : nodes_(nodes) {}
  /// Returns the new node, numbered by the count of nodes before.
  uint32_t add_node() { return nodes_++; }
  /// Adds an edge from -> to with `capacity` >= 0.
  void connect(uint32_t from, uint32_t to, int64_t capacity);

  /// Which of several minimum cuts.
  enum class Tie : uint8_t {
    kFewestBySource,  ///< the smallest side of the source
    kFewestBySink,    ///< the smallest side of the sink
  };
  /// Which maximum flow. Both give the same side, which is unique.
  enum class Solver : uint8_t {
    kBoost,  ///< Boost.Graph's Boykov and Kolmogorov (2004)
    kDinic,  ///< `FlowNetwork`
  };
  /// Returns for each node whether a minimum cut puts it on the side that `tie` makes smallest: that of the source, or
  /// that of the sink.
  std::vector<bool> smallest_side(uint32_t source, uint32_t sink, Tie tie, Solver solver = Solver::kBoost) const;

 private:
  struct Edge {
    uint32_t from, to;
    int64_t capacity;
  };
  uint32_t nodes_;
  std::vector<Edge> edges_;
};

}  // namespace rannc::ir
