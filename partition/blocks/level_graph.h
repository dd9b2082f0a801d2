/// Represents one level of a multilevel hierarchy: topologically numbered groups of tasks, and the values between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/dag.h"

namespace rannc::partition {

/// Consecutive net ids.
class NetRange {
 public:
  struct Iterator {
    uint32_t net = 0;
    uint32_t operator*() const { return net; }
    Iterator& operator++() {
      ++net;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };
  NetRange(uint32_t first, uint32_t end) : first_(first), end_(end) {}
  Iterator begin() const { return {first_}; }
  Iterator end() const { return {end_}; }
  bool empty() const { return first_ == end_; }

 private:
  uint32_t first_, end_;
};

/// Nodes 0 … n-1 are numbered so that every value goes from a lower id to higher ids. A net is a value with its pins:
/// the producer first, then distinct readers. Nets are numbered by producer. Nets inside one node are omitted.
struct LevelGraph {
  std::vector<double> work;            ///< per node
  std::vector<uint64_t> memory;        ///< per node: resident + in_flight * stashed bytes, saturating
  std::vector<double> cost;            ///< per net
  Csr pins;                            ///< per net
  Csr inputs;                          ///< per node: nets it reads
  std::vector<uint32_t> producers;     ///< per net: its first pin, next to those of its neighbours
  std::vector<uint32_t> first_output;  ///< per node: its first net; size nodes + 1

  uint32_t nodes() const { return static_cast<uint32_t>(work.size()); }
  uint32_t nets() const { return static_cast<uint32_t>(cost.size()); }
  uint32_t producer(uint32_t net) const { return producers[net]; }
  /// The nets that a node produces.
  NetRange outputs(uint32_t node) const { return {first_output[node], first_output[node + 1]}; }
  std::span<const uint32_t> readers(uint32_t net) const { return pins.row(net).subspan(1); }
};

/// Builds level 0 of a graph: tasks in `order`, a topological order. Values without readers are omitted.
LevelGraph level_zero(const Dag& dag, std::span<const uint32_t> order, uint32_t in_flight);

/// Contracts the graph into `groups` groups. `group_of` has one entry < groups per node and numbers groups
/// topologically. Parallel two-pin values are merged. O(size).
LevelGraph contract(const LevelGraph& graph, std::span<const uint32_t> group_of, uint32_t groups);

/// Fills `inputs`, `producers` and `first_output` from `pins`, whose producers ascend.
void index_nodes(LevelGraph& graph);

/// Renumbers the distinct `rank`s densely in ascending order. Returns their number.
uint32_t compress_ranks(std::vector<uint32_t>& rank, uint32_t rank_limit);

}  // namespace rannc::partition
