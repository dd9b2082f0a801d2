/// Times a task on this machine, forward and backward.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace rannc::codegen {

struct TaskTimes {
  double forward_ns = 0;
  double backward_ns = 0;  ///< 0 where nothing upstream is trained
};

/// Lowers the task alone, runs it on random operands of the shapes that `bindings` give, and returns medians. Indices
/// are drawn within range. `needs_gradient` is `ir::needs_gradient` of the graph. Uses the threads LibTorch is set to.
/// Errors: the task cannot be lowered, a symbol is unbound, or LibTorch refuses the operands; with the task's location.
Result<TaskTimes> measure_task(const ir::Graph& graph, TaskId task, const std::vector<bool>& needs_gradient,
                               const ir::Bindings& bindings);

/// LibTorch's version and the processor, for the name of a profile's environment.
std::string library_version();

}  // namespace rannc::codegen
