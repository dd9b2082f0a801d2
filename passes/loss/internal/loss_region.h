/// The part of a graph that computes a loss from values of single samples.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/loss/internal/origins.h"

namespace rannc::passes {

/// Names of the values of single samples from which both the loss of a file and the numerators that it was rewritten to
/// are computed.
std::set<std::string> region_border(const ir::Graph& graph, Origins& origins, const std::vector<ValueId>& losses,
                                    const std::vector<ValueId>& numerators);

/// Returns the tasks of `graph` that compute these values from the border, whose values are inputs then. The outputs
/// are `results`. If they are the numerators, losses and totals are copied, but no metrics.
ir::Graph loss_region(const ir::Graph& graph, const std::set<std::string>& border, const std::vector<ValueId>& results,
                      bool numerators);

}  // namespace rannc::passes
