/// Says how many samples a graph holds whose batch is a number.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Nothing where a symbol counts the samples. Else the graph's inputs hold a whole mini-batch, which cannot be split:
/// its size is the extent of axis 0 of the first input where that is not 1, as the axis of the samples is found where
/// it has a symbol; 1 where no input has such an axis, or where that extent is a symbol: what the inputs hold counts as
/// one.
std::optional<uint32_t> fixed_samples(const Graph& graph);

}  // namespace rannc::ir
