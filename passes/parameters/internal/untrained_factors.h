/// Finds stored tensors that are multiplied by weights and are no weights themselves.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// By value, whether a stored tensor serves weights alone. Of files that do not list their program's state:
/// - it is a factor of products with weights that end in a single number, by which a weight is scaled: `u` and `v` of
///   spectral normalisation, whose `u (W v)` divides W;
/// - its elements are 0 and 1, and it is multiplied with weights of its own shape, or stretches over them: a mask of
///   pruned, causal or autoregressive weights.
/// No such use ever meets data. Linear; reads the bytes of tensors that are multiplied with weights.
std::vector<bool> untrained_factors(const ir::Graph& graph);

}  // namespace rannc::passes
