/// Rows sorted by class.
#pragma once

#include <optional>
#include <string>

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Adds a task that lists the places of rows in ascending order of their classes, `classes` being the indices of
/// `topk`, flattened. Nothing for other values.
std::optional<ValueId> add_sorted_places(ir::Graph& graph, ValueId classes, const std::string& name,
                                         const Location& where);
/// Notes that the sum of one-hot classes is the number of rows of each.
void note_class_counts(ir::Graph& graph, TaskId sum);

}  // namespace rannc::frontend
