/// Finds runs of tasks that a model repeats.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/plan/atoms.h"

namespace rannc::tools {

/// A run of consecutive atoms with the constant tasks that they read.
struct BlockRun {
  std::string key;            ///< digest over the tasks' structural keys and wiring, without names
  std::vector<TaskId> tasks;  ///< tasks of the first occurrence, ascending
  uint32_t count = 0;         ///< number of occurrences
};

/// Cuts the model, in task order, into runs of 16 to 64 atoms. Each run ends where the fewest values cross. Returns the
/// distinct runs, ordered by their share of the model, largest first. Equal layers yield equal runs, so the number of
/// distinct runs does not grow with the depth of a model.
std::vector<BlockRun> block_runs(const ir::Graph& graph, const ir::Atoms& atoms);

}  // namespace rannc::tools
