/// Number of samples in a graph whose mini-batches cannot be divided.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Returns the symbol that counts the samples of a graph with losses but without a batch symbol, or an empty string if
/// there is none. Such a graph accepts any number of samples, which together are one mini-batch. The symbol is axis 0
/// of the first input with axes, and a whole axis 0 wherever it occurs in an input. Each size of an input without it is
/// also a size of one with it: the edges of a graph, for example, cannot be split with its nodes.
std::string undivided_symbol(const Graph& graph);

/// Returns the symbol that counts the samples: the batch symbol, else `undivided_symbol`.
std::string samples_symbol(const Graph& graph);

/// Number of samples of a graph whose inputs hold a whole mini-batch, which cannot be split. Nothing if the graph has a
/// batch symbol. The number is the size of `undivided_symbol` in `sizes`, if the graph has one. Otherwise it is the
/// extent of axis 0 of the first input whose extent is not 1, which is also how the batch axis is found for symbolic
/// batches. It is 1 if no input has such an axis or if the extent is a symbol: the inputs then count as one sample.
std::optional<uint32_t> fixed_samples(const Graph& graph, const Bindings& sizes = {});

}  // namespace rannc::ir
