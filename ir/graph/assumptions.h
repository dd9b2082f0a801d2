/// Equalities of sizes that a graph assumes.
#pragma once

#include <string>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir {

/// Formats as `min(40, s) equals s`.
std::string str(const Assumption& assumption);
/// Whether the graph has the assumption, in either order of the sides.
bool is_assumed(const Graph& graph, const Equality& equality);
/// The assumptions with a symbol replaced, without those that become certain.
std::vector<Assumption> substituted(const std::vector<Assumption>& assumptions, std::string_view symbol, const Dim& by);
/// Violations of rule G14.
std::vector<Diagnostic> faults_of_assumptions(const Graph& graph);
/// Checks an assumption if all its symbols are bound. The error is located at the task that needs the assumption and
/// contains the values of both sides.
Result<void> check_assumption(const Assumption& assumption, const Bindings& bindings);
/// Checks every assumption.
Result<void> check_assumptions(const Graph& graph, const Bindings& bindings);

}  // namespace rannc::ir
