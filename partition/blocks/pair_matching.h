/// Merges pairs of nodes of one level while the quotient stays acyclic.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

/// Maintains a topological order of the level's quotient: position(x) < position(y) for every edge between two groups.
/// A merge is made only if the order can be maintained. Convexity of each pair alone does not guarantee this (the pairs
/// {p,r} and {q,s} over p,q -> r,s).
class PairMatching {
 public:
  explicit PairMatching(const LevelGraph& graph);

  bool free(uint32_t node) const { return nodes_[node].mate == node; }
  uint32_t groups() const { return groups_; }

  /// Merges `first` and `second`, both free, with an edge from first to second, if the order can be maintained. Tries
  /// in turn: first takes second's place; second takes first's place; a local reordering (Pearce and Kelly) that visits
  /// at most a constant number of nodes. Returns false if none works: the merge makes a cycle, or a bounded search
  /// cannot exclude one.
  bool try_merge(uint32_t first, uint32_t second);

  /// Groups numbered in the maintained order; `groups()` of them.
  std::vector<uint32_t> group_of() const;

 private:
  /// What a search reads of a node, in one place of memory.
  struct Node {
    uint32_t position = 0;  ///< equal for the two of a pair
    uint32_t mate = 0;      ///< its partner, or itself
    uint32_t stamp = 0;     ///< last search that visited it
  };
  bool reorder(uint32_t first, uint32_t second);
  bool collect(uint32_t start, uint32_t avoid, bool forward, std::vector<uint32_t>& found);
  void join(uint32_t first, uint32_t second, uint32_t position);

  const LevelGraph& graph_;
  uint32_t groups_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> after_, before_, slots_;  ///< of one reordering; groups, each represented by one of its nodes
  uint32_t search_ = 0;
};

}  // namespace rannc::partition
