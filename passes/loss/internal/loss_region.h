/// The part of a graph that computes a loss from values of single samples.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "passes/loss/internal/origins.h"

namespace rannc::passes {

/// Returns whether each value is one of single samples from which both the losses of a file and the numerators that
/// they were rewritten to are computed.
std::vector<bool> region_border(const ir::Graph& graph, Origins& origins, const std::vector<ValueId>& losses,
                                const std::vector<ValueId>& numerators);

/// Returns the tasks of `graph` that compute `results` from the border, whose values are inputs then. `results` are its
/// outputs. If they are the numerators, losses and totals are copied, but no metrics.
ir::Graph loss_region(const ir::Graph& graph, const std::vector<bool>& border, const std::vector<ValueId>& results,
                      bool numerators);

}  // namespace rannc::passes
