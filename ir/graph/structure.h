/// Structural comparison of tasks.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Appends numbers that identify the work of a task within its graph: operator, attributes, types of the operands, and
/// whether each operand needs a gradient (`needs_gradient`, by value). Tasks with equal numbers do equal work. Names do
/// not count.
void structural_numbers(const Graph& graph, TaskId task, const std::vector<bool>& needs_gradient,
                        std::vector<uint32_t>& numbers);

}  // namespace rannc::ir
