/// Selects, stacks and reverses rows of a value.
#pragma once

#include <vector>

#include "frontend/onnx/internal/translate/node.h"

namespace rannc::frontend {

/// Element `index` of axis 0, which is removed.
ValueId row_of(Node& node, ValueId x, int64_t index);
/// Values stacked on a new axis.
ValueId stacked(Node& node, const std::vector<ValueId>& values, int64_t axis = 0);
/// The elements of an axis in reverse order.
ValueId flipped(Node& node, ValueId x, int64_t axis = 0);

}  // namespace rannc::frontend
