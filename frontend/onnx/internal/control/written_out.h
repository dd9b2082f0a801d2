/// Recognises what exporters write out by several nodes where there is one operator for it.
#pragma once

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Makes these of what it finds; what is not read any more stays. Linear in the graph.
///
/// Before opset 21 PyTorch writes a normalisation of groups as one of instances: channels of a group are laid one
/// behind another, normalised with a scale of ones and a bias of zeros that no module has, and laid back; then comes
/// the module's own scale and bias. After: `core.group_norm`, of whose operands each is the module's.
///
/// Attention of which a row sees no key is zero there, and so are its gradients. PyTorch writes a softmax, which makes
/// NaN of a row of nothing but -infinity, and zeros in their place: the rule of that softmax would leave NaN in the
/// gradients. After: `core.softmax` whose `hidden_rows` are zero. A NaN of x stays one then, as in PyTorch.
void recognise_written_out(ir::Graph& graph);

}  // namespace rannc::frontend
