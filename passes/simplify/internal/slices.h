/// What slices take.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Elements `start` to `end` along one axis, one after another.
struct SlicedPart {
  size_t axis = 0;
  int64_t start = 0, end = 0;
};

/// The size of a value along an axis, where it has that axis and it is a number.
std::optional<int64_t> known_size(const ir::Graph& graph, ValueId value, size_t axis);
/// What a slice takes of its operand: of one axis of known size, at least one element, by steps of one. Nothing:
/// another slice, or another task.
std::optional<SlicedPart> sliced_part(const ir::Graph& graph, TaskId task);

}  // namespace rannc::passes
