/// Verifiers of graphs and plans.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rannc::ir {

/// Everything wrong with a graph, each with a rule label G1…; empty: it holds. The rules head verify_graph.cc.
std::vector<Diagnostic> verify(const Graph& graph);
/// Rules P1…; includes those of its graph (G) and its schedule (S).
std::vector<Diagnostic> verify(const Plan& plan);
/// The first of `found` with the others as notes, or success.
Result<void> as_result(std::vector<Diagnostic> found);

}  // namespace rannc::ir
