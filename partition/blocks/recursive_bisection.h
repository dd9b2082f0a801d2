/// Cuts a small level into k blocks by halving it again and again.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

/// Each half is the better of several orders, cut at the cheapest place near the middle and refined by rank moves; the
/// earlier half gets the lower ranks, so the quotient is acyclic by construction. Halvings aim at blocks of at most
/// `work_limit`; the answer may exceed it, and knows no memory. Values from outside a part do not count inside it.
/// Returns ranks < blocks, none empty; nothing where a part has too few nodes. O(orders * pins * log blocks), meant for
/// coarse levels.
std::vector<uint32_t> bisect_recursively(const LevelGraph& graph, uint32_t blocks, double work_limit);

}  // namespace rannc::partition
