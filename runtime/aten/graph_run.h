/// Runs a graph of core operators as a program of one device, task by task, by LibTorch's dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::runtime {

/// Tensors of a graph's values, by id; nothing where a value is not computed yet.
using GraphValues = std::vector<std::optional<at::Tensor>>;

struct GraphRun {
  ir::Bindings sizes;  ///< of the symbols
  at::Device device = at::kCPU;
  bool training = true;
};

/// Runs one task on `values`, into which its results go. A diagnostic names the task where an operand is not there, the
/// operator has no lowering, a symbol no size, or a kernel fails.
Result<void> run_task(const ir::Graph& graph, TaskId task, const GraphRun& run, GraphValues& values);

/// Runs all tasks in order.
Result<void> run_graph(const ir::Graph& graph, const GraphRun& run, GraphValues& values);

}  // namespace rannc::runtime
