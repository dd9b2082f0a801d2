/// Checks and lists a model's calls of operators outside the core set.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace rannc::tools {

/// Returns a line that lists these operators, or an empty text if there are none: `calls    aten.cdist 2 times, …`.
/// Returns an error that lists all calls whose operator does not exist or whose arguments do not match it. It is also
/// an error if a gradient flows through an operator without one, since LibTorch would silently stop the gradient there.
Result<std::string> foreign_calls(const ir::Graph& graph);

}  // namespace rannc::tools
