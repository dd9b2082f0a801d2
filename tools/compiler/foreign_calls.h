/// What a model calls that is no core operator.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace rannc::tools {

/// A line for people that lists these operators, empty where there are none: `calls    aten.cdist 2 times, …`. An error
/// that lists all whose operator is not there, or whose arguments do not fit it; and of one that has no gradient where
/// one would flow: LibTorch would let it end there.
Result<std::string> foreign_calls(const ir::Graph& graph);

}  // namespace rannc::tools
