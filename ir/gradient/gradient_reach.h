/// Which values a gradient of the losses reaches.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Per value whether a path of differentiable tasks leads from it to a loss. PyTorch has no gradient (None) for a
/// parameter without such a path, and optimizers leave it alone: neither weight decay nor momentum changes it. Zeros
/// are gradients, as those of `floor`. Types must be inferred. Linear in the graph.
std::vector<bool> reached_by_gradient(const Graph& graph);

}  // namespace rannc::ir
