/// Finds weights that training leaves unchanged although a user may expect otherwise.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::tools {

/// Names of stored integer tensors that an imported graph converts to floats, such as weights before DequantizeLinear.
std::vector<std::string> integer_weights(const ir::Graph& graph);

/// Checks a graph with losses after its passes. Returns one warning about the integer weights and one about parameters
/// that no gradient reaches, with the place where it stops. Returns an error, located in `file`, if no parameter is
/// left to train.
Result<std::vector<std::string>> check_trained(const ir::Graph& graph, const std::vector<std::string>& integers,
                                               const std::string& file);

}  // namespace rannc::tools
