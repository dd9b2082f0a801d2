/// Minimum cuts between blocks of neighbouring rank.
#pragma once

#include "partition/blocks/refine.h"

namespace rannc::partition {

struct FlowLimits {
  double work = 0;               ///< largest work of a block
  uint64_t memory = UINT64_MAX;  ///< largest memory of a block
  double reach = 0;              ///< work on each side of a cut that may change sides
  uint64_t steps = UINT64_MAX;   ///< edges looked at after which no further cut is begun
};

/// Replaces the cut between two blocks of neighbouring rank, one pair after another, by a minimum cut among those that
/// leave all nodes beyond `reach` where they are, wherever that is cheaper within the limits. A cut within the reach
/// that breaks the limits is pierced: nodes of the heavy side join the other for good, those first that cost nothing.
/// Readers never come before producers, so block ids stay ranks; the moves are made one by one in an order in which
/// each is legal, and `moved` (may be empty) runs after each. `evaluations` counts edges looked at.
/// After Sanders and Schulz (ESA 2011) and Hamann and Strasser (JEA 2018), with the order as uncuttable edges.
Refined refine_by_flow(const LevelGraph& graph, BlockState& state, const FlowLimits& limits,
                       const std::function<void()>& moved);

}  // namespace rannc::partition
