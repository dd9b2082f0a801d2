/// Orders the nodes of a level, in near-linear time.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

enum class OrderKind {
  kGiven,           ///< the ids themselves
  kDepthFirst,      ///< last ready, first out; siblings by ascending id
  kDepthFirstBack,  ///< the same from the outputs, reversed
  kBreadthFirst,    ///< by longest-path level, ties by id
  kLeastLive,       ///< the ready node that raises the cost of live values least; O(n log n)
};
inline constexpr OrderKind kAllOrders[] = {OrderKind::kGiven, OrderKind::kDepthFirst, OrderKind::kDepthFirstBack,
                                           OrderKind::kBreadthFirst, OrderKind::kLeastLive};

/// Returns the nodes in that order. Deterministic; ties by id.
std::vector<uint32_t> order_nodes(const LevelGraph& graph, OrderKind kind);

/// Returns the nodes by ascending work, ties by id. Works are finite and >= 0, so their bits order as they do: a radix
/// sort. O(nodes).
std::vector<uint32_t> by_ascending_work(const LevelGraph& graph);

/// Returns the longest-path level of every node; sources have 0.
std::vector<uint32_t> longest_path_levels(const LevelGraph& graph);

}  // namespace rannc::partition
