/// Equalities of sizes that a graph takes for granted.
#pragma once

#include <string>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir {

/// `min(40, s) equals s`.
std::string str(const Assumption& assumption);
/// Whether the graph has the assumption, in either order of the sides.
bool is_assumed(const Graph& graph, const Equality& equality);
/// The assumptions with a symbol replaced, without those that are certain then.
std::vector<Assumption> substituted(const std::vector<Assumption>& assumptions, std::string_view symbol, const Dim& by);
/// What breaks rule G14.
std::vector<Diagnostic> faults_of_assumptions(const Graph& graph);
/// Checks every assumption whose symbols are all bound; the error is located at the task that needs it and says what
/// both sides are.
Result<void> check_assumptions(const Graph& graph, const Bindings& bindings);

}  // namespace rannc::ir
