/// Recognizes values with one number per channel.
#pragma once

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Whether a value has one number for each channel (axis 1) of a tensor of shape `x` (rank 2 or more) and is aligned
/// with that axis under broadcasting: [C, 1, 1] for [N, C, H, W].
bool is_per_channel(const Graph& graph, ValueId value, const Shape& x);

}  // namespace rannc::ir
