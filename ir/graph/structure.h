/// Which tasks of a graph are alike.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// What a task computes, as numbers of its graph: operator, attributes, types of the operands and whether each is
/// trained or passes a gradient on (`needs_gradient`, by value). Equal numbers, equal work; names are no part of it.
void structural_numbers(const Graph& graph, TaskId task, const std::vector<bool>& needs_gradient,
                        std::vector<uint32_t>& numbers);

}  // namespace rannc::ir
