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
/// The indices of a choice of classes by `topk`, which differ among each other in each row, and their number of
/// classes.
struct ClassChoice {
  ValueId indices;
  int64_t classes;
};
/// The choice of which a value holds all indices, in any order and element type.
std::optional<ClassChoice> choice_of_rows(const ir::Graph& graph, ValueId value);

/// Adds a task that lists for each row where it is among the sorted ones: the inverse of `places`. Only rows that are
/// put back read it.
ValueId add_unsorted_places(ir::Graph& graph, ValueId places, const std::string& name, const Location& where);
/// The sorted places of which a value is the inverse.
std::optional<ValueId> sorted_behind(const ir::Graph& graph, ValueId value);
/// Whether a value lists the places of sorted rows.
bool sorts_rows(const ir::Graph& graph, ValueId value);
/// Number of all rows of such a value.
ir::Dim unsorted_count(const ir::Graph& graph, ValueId places);
/// Notes that the sum of one-hot classes is the number of rows of each.
void note_class_counts(ir::Graph& graph, TaskId sum);

}  // namespace rannc::frontend
