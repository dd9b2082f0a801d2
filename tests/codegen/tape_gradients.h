/// Gradients of a graph's losses by LibTorch's tape.
#pragma once

#include <map>
#include <string>

#include "runtime/aten/graph_run.h"

namespace rannc::test {

/// Gradients of the sum of all loss numerators, by parameter name, of those parameters that the tape gives one.
/// `values` has a tensor for each leaf; parameters are copied.
Result<std::map<std::string, at::Tensor>> gradients_by_tape(const ir::Graph& graph, const ir::Bindings& sizes,
                                                            runtime::GraphValues values);

}  // namespace rannc::test
