/// Which of a model's weights a training run leaves as they are though a user may expect otherwise.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::tools {

/// Names of stored integer tensors that a graph as imported makes floats of, as weights behind DequantizeLinear.
std::vector<std::string> integer_weights(const ir::Graph& graph);

/// Of a graph with losses after its passes: a warning for the integer weights, and one for the parameters that no
/// gradient reaches, with where it is stopped. An error, located in `file`, where no parameter is left to train.
Result<std::vector<std::string>> check_trained(const ir::Graph& graph, const std::vector<std::string>& integers,
                                               const std::string& file);

}  // namespace rannc::tools
