/// Runs of tasks that a model repeats.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/plan/atoms.h"

namespace rannc::tools {

/// A run of consecutive atoms with the constant tasks they need.
struct BlockRun {
  std::string key;            ///< digest over the tasks' structural keys and wiring, without names
  std::vector<TaskId> tasks;  ///< of its first occurrence, ascending
  uint32_t count = 0;         ///< how often it occurs
};

/// Cuts the model, in task order, into runs of 16 to 64 atoms, each ended where the fewest values cross, and returns
/// the different ones, those that make up most of the model first. Equal layers make equal runs, so their number does
/// not grow with the depth of a model.
std::vector<BlockRun> block_runs(const ir::Graph& graph, const ir::Atoms& atoms);

}  // namespace rannc::tools
