/// Recognises numbers that stand for channels.
#pragma once

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Whether a value has one number for each channel, axis 1, of something of shape `x` (rank 2 and more), and meets it
/// there when both stretch to a common shape: [C, 1, 1] beside [N, C, H, W].
bool is_per_channel(const Graph& graph, ValueId value, const Shape& x);

}  // namespace rannc::ir
