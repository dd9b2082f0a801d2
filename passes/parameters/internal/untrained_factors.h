/// Finds stored tensors that are multiplied by weights but are not weights themselves.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Returns for each value whether it is a stored tensor that only weights use. Applies to files that do not list their
/// program's state. Two forms are recognized:
/// - factors of products with weights that end in a single number by which a weight is scaled: `u` and `v` of spectral
///   normalization, whose `u (W v)` divides W;
/// - tensors of 0 and 1 that are multiplied with weights of their own shape, or are broadcast over them: masks of
///   pruned, causal or autoregressive weights.
/// No such use interacts with data. Linear; reads the bytes of tensors that are multiplied with weights.
std::vector<bool> untrained_factors(const ir::Graph& graph);

}  // namespace rannc::passes
