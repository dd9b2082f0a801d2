/// Reachability of values by gradients of the losses.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Whether a path of differentiable tasks leads from each value to a loss. A parameter without such a path has no
/// gradient in PyTorch (None), and optimizers skip it: neither weight decay nor momentum changes it. Zero gradients,
/// such as those of `floor`, count as gradients. Types must be inferred. Linear in the graph.
std::vector<bool> reached_by_gradient(const Graph& graph);

}  // namespace rannc::ir
