/// State tensors of the exported program and their placement in the stored values of a graph.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

/// The part that is an entire, unpermuted stored value. Its shape has to be static.
StatePart whole(const Graph& graph, ValueId value);
/// Whether a part is an entire, unpermuted stored value.
bool is_whole(const Graph& graph, const StatePart& part);
/// The tensor that is an entire value with its axes permuted: axis i is axis `axes[i]` of the value.
StateTensor state_of(const Graph& graph, std::string name, ValueId value, std::vector<int64_t> axes);

/// Violations of rule G20.
std::vector<Diagnostic> faults_of_state(const Graph& graph);

}  // namespace rannc::ir
