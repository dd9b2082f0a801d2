/// Cuts a small level into k blocks by recursive bisection.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

/// Each bisection takes the best of several orders, cut at the cheapest place near the middle and refined by rank
/// moves. The earlier half gets the lower ranks, so the quotient is acyclic by construction. Bisections aim at blocks
/// of at most `work_limit`. The result may exceed it and ignores memory. Values from outside a part do not count inside
/// it. Returns ranks < blocks, none empty; nothing if a part has too few nodes. O(orders * pins * log blocks), meant
/// for coarse levels.
std::vector<uint32_t> bisect_recursively(const LevelGraph& graph, uint32_t blocks, double work_limit);

}  // namespace rannc::partition
