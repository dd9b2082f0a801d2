/// Recognizes slices of contiguous elements.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Contiguous elements `start` to `end` along one axis.
struct SlicedPart {
  size_t axis = 0;
  int64_t start = 0, end = 0;
};

/// Returns the size of a value along an axis, if the axis exists and the size is a number.
std::optional<int64_t> known_size(const ir::Graph& graph, ValueId value, size_t axis);
/// Returns what a slice selects from its operand, if it slices one axis of known size, with at least one element and
/// step 1; nullopt for other slices and other tasks.
std::optional<SlicedPart> sliced_part(const ir::Graph& graph, TaskId task);

}  // namespace rannc::passes
