/// Rewrites a loss as a sum over samples and its denominator.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Returns a term that equals the scalar `loss` of one process that computes the whole mini-batch: a new numerator,
/// which is a partial sum (`ir::Mix`), and the denominator that was found. Adds tasks to the graph, even if it returns
/// nullopt; unused ones are dead. Types must be known.
std::optional<ir::LossTerm> partial_sum(ir::Graph& graph, ValueId loss);

}  // namespace rannc::passes
