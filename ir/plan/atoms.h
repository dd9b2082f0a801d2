/// Atomic subcomponents of a graph (RaNNC III.A).
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Whether a leaf value is the same for every sample: neither an input nor a random input with samples.
bool is_fixed(const Graph& graph, ValueId leaf);

/// The constant tasks (they depend on no input data and on no random input with samples) and the non-constant task of
/// each atom. Constant tasks belong to every atom that reads them, directly or through constant tasks. This membership
/// follows from the graph (`close_over_constants`). It is not stored, because one chain read by every atom would take
/// quadratic memory.
struct Atoms {
  std::vector<bool> constant;   ///< per task
  std::vector<TaskId> tasks;    ///< per atom: its non-constant task; ascending, so atoms are in topological order
  std::vector<AtomId> atom_of;  ///< per task: its atom; invalid for constant tasks
  bool operator==(const Atoms&) const = default;
};

/// The given tasks and the constant tasks that they need, ascending. Those that only a loss term needs belong to the
/// first atom that reads one of its parameters, else to the last atom, like those that only graph outputs need.
std::vector<TaskId> close_over_constants(const Graph& graph, const Atoms& atoms, const std::vector<TaskId>& tasks);

}  // namespace rannc::ir
