/// Equalities of sizes that a graph assumes.
#pragma once

#include <string>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir {

/// Formats as `min(40, s) equals s`.
std::string str(const Assumption& assumption);
/// Whether the assumptions of the graph imply the equality.
bool is_assumed(const Graph& graph, const Equality& equality);
/// Adds an equality that the task at `where` needs and that `is_assumed` denies, and normalises the graph by it: of two
/// equal sizes the simpler one replaces the other in all types and attributes, inside expressions too. `Graph` does the
/// same to every type that it gets from now on. The values whose types changed are added to `changed`, by value. Fails
/// if the equality cannot hold together with the earlier ones.
Result<void> assume(Graph& graph, const Equality& equality, const Location& where, std::vector<bool>& changed);
/// The type, with every size replaced by the simplest one that equals it by these assumptions.
ValueType normalised(ValueType type, const std::vector<Assumption>& assumptions);
/// The attributes, and the bodies in them, with such sizes.
Attributes normalised(const Attributes& attributes, const std::vector<Assumption>& assumptions);
/// The assumptions with a symbol replaced, without those that become certain.
std::vector<Assumption> substituted(const std::vector<Assumption>& assumptions, std::string_view symbol, const Dim& by);
/// Drops the assumptions about a symbol that is in no size of the graph.
void drop_unknown_assumptions(Graph& graph);
/// Violations of rule G14.
std::vector<Diagnostic> faults_of_assumptions(const Graph& graph);
/// Checks an assumption if all its symbols are bound. The error is located at the task that needs the assumption and
/// contains the values of both sides.
Result<void> check_assumption(const Assumption& assumption, const Bindings& bindings);
/// Checks every assumption.
Result<void> check_assumptions(const Graph& graph, const Bindings& bindings);

}  // namespace rannc::ir
