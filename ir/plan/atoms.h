/// Atomic subcomponents of a graph (RaNNC III.A).
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Whether a value that no task makes is the same of every sample: neither an input nor a draw of samples.
bool is_fixed(const Graph& graph, ValueId leaf);

/// Which tasks are constant (depend on no input's data, no draw of samples) and which non-constant task each atom is
/// built around. Constant tasks belong to every atom that reads them, directly or through constant tasks; that
/// membership follows from the graph (`close_over_constants`) and is not stored, since one chain read by every atom
/// would make it quadratic.
struct Atoms {
  std::vector<bool> constant;   ///< per task
  std::vector<TaskId> tasks;    ///< per atom: its non-constant task, ascending, so atoms are in topological order
  std::vector<AtomId> atom_of;  ///< per task: its atom; invalid for constant tasks
  bool operator==(const Atoms&) const = default;
};

/// The given tasks and the constant ones they need (those of the graph's outputs: with the last atom), ascending.
std::vector<TaskId> close_over_constants(const Graph& graph, const Atoms& atoms, const std::vector<TaskId>& tasks);

}  // namespace rannc::ir
