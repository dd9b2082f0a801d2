/// Tensors of the exported program's state: how they lie in the stored values of a graph.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

/// A stored value as it is. Its shape has to be static.
StatePart whole(const Graph& graph, ValueId value);
/// Whether a part is a stored value as it is.
bool is_whole(const Graph& graph, const StatePart& part);
/// The tensor that is all of one value, its axes reordered so that axis i is `axes[i]` of the value's.
StateTensor state_of(const Graph& graph, std::string name, ValueId value, std::vector<int64_t> axes);

/// What breaks rule G20.
std::vector<Diagnostic> faults_of_state(const Graph& graph);

}  // namespace rannc::ir
