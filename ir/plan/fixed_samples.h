/// Number of samples in a graph with a static batch size.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Number of samples of a graph whose inputs hold a whole mini-batch, which cannot be split. Nothing if the graph has a
/// batch symbol. The number is the extent of axis 0 of the first input whose extent is not 1, which is also how the
/// batch axis is found for symbolic batches. It is 1 if no input has such an axis or if the extent is a symbol: the
/// inputs then count as one sample.
std::optional<uint32_t> fixed_samples(const Graph& graph);

}  // namespace rannc::ir
