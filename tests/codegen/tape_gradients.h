/// Gradients of a graph's losses by LibTorch's tape.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/aten/graph_run.h"

namespace rannc::test {

struct Taped {
  std::vector<at::Tensor> numerators;           ///< by loss term
  std::map<std::string, at::Tensor> gradients;  ///< by parameter, of those that the tape gives one
};

/// Gradients of the sum of all loss numerators, each times its seed. `values` has a tensor for each leaf; parameters
/// are copied.
Result<Taped> gradients_by_tape(const ir::Graph& graph, const ir::Bindings& sizes, runtime::GraphValues values,
                                const std::vector<double>& seeds);

}  // namespace rannc::test
