/// Refines a partition by minimum cuts between blocks of neighbouring rank.
#pragma once

#include "partition/blocks/refine.h"

namespace rannc::partition {

struct FlowLimits {
  double work = 0;               ///< largest work of a block
  uint64_t memory = UINT64_MAX;  ///< largest memory of a block
  double reach = 0;              ///< work on each side of a cut that may change sides
  uint64_t steps = UINT64_MAX;   ///< edges examined after which no further cut is started
};

/// For one pair of blocks with neighbouring ranks after another, replaces the cut by a minimum cut if that is cheaper
/// within the limits. Nodes beyond `reach` do not move. A cut that breaks the limits is pierced: nodes of the heavy
/// side join the other side permanently, those without cost first. Readers never come before producers, so block ids
/// stay ranks. Moves are made one by one in an order in which each is legal, and `moved` (may be empty) is called after
/// each. `evaluations` counts examined edges.
/// After Sanders and Schulz (ESA 2011) and Hamann and Strasser (JEA 2018), with the order as uncuttable edges.
Refined refine_by_flow(const LevelGraph& graph, BlockState& state, const FlowLimits& limits,
                       const std::function<void()>& moved);

}  // namespace rannc::partition
