/// Finds a partition into exactly k blocks within memory if a search returned another number.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

struct MemoryFit {
  std::optional<std::vector<uint32_t>> block_of;  ///< per node: ranks 0 … k-1, none empty
  uint32_t least_blocks = 0;  ///< a proven lower bound on the number of blocks within the memory limit
  bool exhaustive = false;    ///< every order was considered, so an empty result proves that none exists
  size_t down_sets = 0;       ///< number stored by the exact search
};

/// First tries fixed orders cut by `cut_order`, within `imbalance` and then within memory alone. Then searches exactly
/// over down-sets for the least (blocks, bytes of the last block) in lexicographic order. This is exact because a state
/// with fewer blocks, or as many and a smaller last one, dominates the other. The search ends without a result at
/// `max_down_sets`, or if these would take more than 256 MB or many seconds. Every node must fit alone.
MemoryFit fit_memory(const LevelGraph& graph, uint32_t blocks, uint64_t memory_limit, double imbalance,
                     size_t max_down_sets);

}  // namespace rannc::partition
