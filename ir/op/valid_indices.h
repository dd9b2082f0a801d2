/// Which indices a task accepts.
#pragma once

#include <optional>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

struct ValidIndices {
  int64_t low = 0, high = 0;       ///< both included
  std::optional<int64_t> ignored;  ///< valid as well
  bool classes = false;            ///< they are labels
  bool holds(int64_t number) const { return (number >= low && number <= high) || number == ignored; }
};

/// Ranges of operand 1 of a task that reads or writes elements by index, or of labels: one for all its elements, or one
/// for each component along its last axis. Empty if the task has no such operand, or sizes are not known.
std::vector<ValidIndices> valid_indices(const Graph& graph, TaskId task, const Bindings& sizes = {});

/// An error at the first task of which a constant index is out of range.
Result<void> check_constant_indices(const Graph& graph);

}  // namespace rannc::ir
