/// Writes a loss as a sum over samples and what divides it.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// A term whose value is that scalar of one process that sees the whole mini-batch: a new numerator, which is a partial
/// sum (`ir::Mix`), and the denominator that was found on the way. Adds tasks to the graph, also where it finds
/// nothing; what is not used is dead. Types must be known.
std::optional<ir::LossTerm> partial_sum(ir::Graph& graph, ValueId loss);

}  // namespace rannc::passes
