/// Runs a graph of core operators on one device, task by task, through LibTorch's dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::runtime {

/// Tensors of a graph's values by id; nullopt if a value is not computed yet.
using GraphValues = std::vector<std::optional<at::Tensor>>;

struct GraphRun {
  ir::Bindings sizes;  ///< values of the symbols
  at::Device device = at::kCPU;
  bool training = true;
  bool records = true;  ///< `taped` tasks keep their tapes; else those are undefined tensors
};

/// Runs one task on `values` and stores its results there. Errors name the task: an operand is missing, the operator
/// has no lowering, a symbol is unbound, or a kernel fails.
Result<void> run_task(const ir::Graph& graph, TaskId task, const GraphRun& run, GraphValues& values);

/// Runs one task on these operands (nullopt: absent) and returns its results. Exceptions of kernels pass through. A
/// `vjp` task runs the tape that its forward task has kept, or repeats its forward pass under a tape of its own. A tape
/// that no other tensor refers to is consumed.
Result<std::vector<at::Tensor>> run_on(const ir::Graph& graph, TaskId task, const GraphRun& run,
                                       const std::vector<std::optional<at::Tensor>>& operands);

/// Runs all tasks in order.
Result<void> run_graph(const ir::Graph& graph, const GraphRun& run, GraphValues& values);

}  // namespace rannc::runtime
