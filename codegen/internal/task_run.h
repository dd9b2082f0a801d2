/// A run of a model's tasks as one compiled function on made-up operands.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/measure.h"
#include "ir/graph/graph.h"

namespace rannc::codegen {

/// Built as a stage's program is: a parameter is passed once per reading task, factors of random tasks are operands,
/// results are what is read outside. Weights are random, so that models without weight files are measured too; integer
/// operands are drawn within the extents they may point into.
class TaskRun {
 public:
  /// `tasks` in ascending order; `facts` are the graph's. LibTorch's exceptions pass through.
  static Result<std::unique_ptr<TaskRun>> build(const ir::Graph& graph, std::span<const TaskId> tasks,
                                                const RunFacts& facts, const ir::Bindings& bindings);

  /// Results with the tape behind them, when gradients are recorded.
  std::vector<at::Tensor> forward();
  /// Whether a gradient of that result comes back.
  const std::vector<bool>& seeded() const { return seeded_; }
  /// Operands whose gradient is sent back, and parameters by reading task.
  const std::vector<at::Tensor>& sources() const { return sources_; }
  const std::vector<at::Tensor>& leaves() const { return leaves_; }

 private:
  torch::jit::Code code_;
  torch::jit::Stack arguments_;
  std::vector<at::Tensor> sources_, leaves_;
  std::vector<bool> seeded_;
  friend class TaskRunBuilder;
};

}  // namespace rannc::codegen
