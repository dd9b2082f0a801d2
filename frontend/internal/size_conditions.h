/// Branch conditions that compare sizes.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>

#include "ir/graph/graph.h"
#include "ir/op/op_call.h"

namespace rannc::frontend {

/// An outcome of a condition and the equality of sizes under which the condition has it.
struct Outcome {
  bool holds = false;
  ir::Equality required;
};

/// Returns both outcomes of a one-element condition that compares two sizes: `Shape -> Gather -> Equal`. The first is
/// preferred: equal sizes, because exporters guard an optional Squeeze by `size == 1`, or else a true comparison.
/// Returns nothing for other conditions, if the number of samples decides, and for two symbols that may be equal.
std::optional<std::array<Outcome, 2>> outcomes_of_sizes(const ir::Graph& graph, ValueId condition);

/// Returns the symbols of a condition that follows from sizes and constants alone; nothing if it does not.
std::optional<std::set<std::string>> symbols_of_condition(const ir::Graph& graph, ValueId condition);

/// Adds an assumption that the task at `where` needs, if it is new, and infers what it changes.
Result<void> assume_sizes(ir::Graph& graph, const ir::Equality& equality, const Location& where);

/// Assumes that a size of the model's inputs is not 1, for the task at `where`. A number of samples may be.
Result<void> assume_not_one(ir::Graph& graph, const ir::Dim& size, const Location& where);

}  // namespace rannc::frontend
