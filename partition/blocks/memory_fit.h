/// Finds a partition into exactly k blocks within memory where a search came out with another number.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

struct MemoryFit {
  std::optional<std::vector<uint32_t>> block_of;  ///< per node: ranks 0 … k-1, none empty
  uint32_t least_blocks = 0;  ///< a proven lower bound on the number of blocks within the memory limit
  bool exhaustive = false;    ///< every order was considered, so that no answer means there is none
  size_t down_sets = 0;       ///< that the exact search remembered
};

/// Two steps. Fixed orders cut by `cut_order`, first within `imbalance`, then within memory alone. Then the exact
/// search: over down-sets, the least (blocks, bytes of the last block) in lexicographic order, which is exact because a
/// state with fewer blocks, or the same and a smaller last one, can do whatever the other can. It ends without an
/// answer at `max_down_sets`, or where these would take more than 256 MB or many seconds. Every node fits alone.
MemoryFit fit_memory(const LevelGraph& graph, uint32_t blocks, uint64_t memory_limit, double imbalance,
                     size_t max_down_sets);

}  // namespace rannc::partition
