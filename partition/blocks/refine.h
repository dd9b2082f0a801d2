/// Improves the partition of one level by local search and keeps every intermediate partition legal.
#pragma once

#include <cstdint>
#include <functional>

#include "partition/blocks/block_state.h"

namespace rannc::partition {

struct RefineLimits {
  double work = 0;               ///< largest work of a block after a move
  uint64_t memory = UINT64_MAX;  ///< largest memory of a block after a move
  uint32_t passes = 2;
  double last_work = -1;  ///< limit of the last block if it differs; negative: the same as the others
};

struct Refined {
  double gain = 0;           ///< decrease of the crossing cost, >= 0
  uint64_t evaluations = 0;  ///< number of priced moves, a measure of work
};

/// Fiduccia-Mattheyses passes: repeatedly makes the best legal move by value gain, each node once a pass, and rolls
/// back to the best prefix. A legal move stays inside the node's rank window and within the limits, and leaves a node
/// in the source. Every prefix has an acyclic quotient because every single move keeps it. `moved` (may be empty) is
/// called after each move and each move back. O(pins log nodes) a pass.
Refined refine(const LevelGraph& graph, BlockState& state, const RefineLimits& limits,
               const std::function<void()>& moved);

}  // namespace rannc::partition
