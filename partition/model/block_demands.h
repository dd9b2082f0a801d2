/// From demands on atoms to constraints on the blocks that hold them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// What a user demands before blocks are known.
struct AtomDemands {
  struct Pin {
    uint32_t atom = 0, stage = 0;
  };
  struct Pair {
    uint32_t first = 0, second = 0;
  };
  std::vector<Pin> pins;       ///< the atom's block lies in that stage
  std::vector<Pair> together;  ///< no cut between their blocks: everything in between shares their stage too
  bool empty() const { return pins.empty() && together.empty(); }
};

/// Adds pins and forbidden cuts to `constraints`, sorted as `StageConstraints` wants them. Fails where no cut of these
/// blocks can meet the demands, and names the two atoms: pinned to different stages, but in one block; or a later block
/// pinned to an earlier stage. `name` is for messages.
Result<void> add_demands(const AtomDemands& demands, const std::vector<uint32_t>& block_of_atom,
                         const std::function<std::string(uint32_t atom)>& name, StageConstraints& constraints);

/// What a person calls a task: the model's node it comes from, else its first output.
std::string task_name(const ir::Graph& graph, TaskId task);

}  // namespace rannc::partition
