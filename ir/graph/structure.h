/// Structural comparison of tasks.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// What becomes of the gradient of a value.
enum class GradientRole : uint8_t {
  kNone,    ///< it has none
  kSample,  ///< computed and passed on for each micro-batch
  kWeight,  ///< summed over the micro-batches: of parameters and of results of once-per-step tasks
};

/// Roles by value. `needs_gradient`, by value, belongs to the same graph (`ir/plan/plan.h`). Linear.
std::vector<GradientRole> gradient_roles(const Graph& graph, const std::vector<bool>& needs_gradient);

/// Appends numbers that identify the work of a task within its graph: operator, attributes, types and gradient roles of
/// the operands. Tasks with equal numbers do equal work. Names do not count.
void structural_numbers(const Graph& graph, TaskId task, const std::vector<GradientRole>& roles,
                        std::vector<uint32_t>& numbers);

}  // namespace rannc::ir
