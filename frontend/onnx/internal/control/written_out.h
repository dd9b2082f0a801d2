/// Recognizes operators that exporters decompose into several nodes.
#pragma once

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Replaces the decompositions that it finds. Leaves values that are no longer read in the graph. Linear in the graph.
///
/// Before opset 21 PyTorch decomposes group normalization: it reshapes the channels of a group into one instance,
/// normalizes with a scale of ones and a bias of zeros that belong to no module, reshapes back, and applies the
/// module's scale and bias. After: `core.group_norm` with the module's operands.
///
/// Attention is zero in a row that attends to no key, and so are its gradients. PyTorch writes a softmax, which returns
/// NaN for a row of -infinity, and then replaces NaN by zero. The gradient of that softmax would be NaN.
/// After: `core.softmax` whose `hidden_rows` are zero. A NaN in x then remains NaN, as in PyTorch.
void recognise_written_out(ir::Graph& graph);

}  // namespace rannc::frontend
