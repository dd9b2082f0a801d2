/// Verifiers of graphs and plans.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rannc::ir {

/// All faults of a graph, each with a rule label G1…; empty if the graph is valid. verify_graph.cc lists the rules.
std::vector<Diagnostic> verify(const Graph& graph);
/// All faults of a plan (rules P1…), including those of its graph (G) and its schedule (S).
std::vector<Diagnostic> verify(const Plan& plan);
/// The first diagnostic of `found` with the others as notes; success if there is none.
Result<void> as_result(std::vector<Diagnostic> found);

}  // namespace rannc::ir
