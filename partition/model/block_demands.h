/// Translates demands on atoms into constraints on the blocks that contain them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Demands of a user, stated before blocks exist.
struct AtomDemands {
  struct Pin {
    uint32_t atom = 0, stage = 0;
  };
  struct Pair {
    uint32_t first = 0, second = 0;
  };
  std::vector<Pin> pins;       ///< the atom's block must lie in this stage
  std::vector<Pair> together;  ///< no cut may separate their blocks, so all blocks in between share the stage
  bool empty() const { return pins.empty() && together.empty(); }
};

/// Adds pins and forbidden cuts to `constraints`, sorted as `StageConstraints` requires. Fails if no cut of these
/// blocks can meet the demands: atoms of one block are pinned to different stages, or a later block is pinned to an
/// earlier stage. The error names the two atoms. `name` is used in messages.
Result<void> add_demands(const AtomDemands& demands, const std::vector<uint32_t>& block_of_atom,
                         const std::function<std::string(uint32_t atom)>& name, StageConstraints& constraints);

/// Returns the user-visible name of a task: the model node that it comes from, or else its first output.
std::string task_name(const ir::Graph& graph, TaskId task);

}  // namespace rannc::partition
