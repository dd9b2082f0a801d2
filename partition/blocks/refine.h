/// Local search on one level that keeps every intermediate partition legal.
#pragma once

#include <cstdint>
#include <functional>

#include "partition/blocks/block_state.h"

namespace rannc::partition {

struct RefineLimits {
  double work = 0;               ///< largest work of a block that a move may make
  uint64_t memory = UINT64_MAX;  ///< largest memory of a block that a move may make
  uint32_t passes = 2;
  double last_work = -1;  ///< of the last block where that differs; negative: as the others
};

struct Refined {
  double gain = 0;           ///< fall of the crossing cost, >= 0
  uint64_t evaluations = 0;  ///< moves that were priced: the work done
};

/// Fiduccia-Mattheyses passes: the best legal move by value gain, each node once a pass, rolled back to the best
/// prefix. Legal: inside the node's rank window, within the limits, the source keeps a node. Every prefix has an
/// acyclic quotient because every single move has. `moved` (may be empty) runs after each move and each move back.
/// O(pins log nodes) a pass.
Refined refine(const LevelGraph& graph, BlockState& state, const RefineLimits& limits,
               const std::function<void()>& moved);

}  // namespace rannc::partition
