/// Runs a model's tasks as one compiled function on synthetic operands.
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

/// Built like a stage's program: a parameter is passed once per reading task, factors of random tasks are operands, and
/// values that are read outside are results. Weights are random, so that models without weight files can be measured.
/// Integer operands are random within the extents that they index.
class TaskRun {
 public:
  /// `tasks` in ascending order; `facts` are the graph's. LibTorch's exceptions pass through.
  static Result<std::unique_ptr<TaskRun>> build(const ir::Graph& graph, std::span<const TaskId> tasks,
                                                const RunFacts& facts, const ir::Bindings& bindings);

  /// Runs the forward pass and returns its results, recorded by autograd if gradients are enabled.
  std::vector<at::Tensor> forward();
  /// Per result, whether it receives a gradient.
  const std::vector<bool>& seeded() const { return seeded_; }
  /// Operands whose gradient is sent back.
  const std::vector<at::Tensor>& sources() const { return sources_; }
  /// Parameters, one per reading task.
  const std::vector<at::Tensor>& leaves() const { return leaves_; }

 private:
  torch::jit::Code code_;
  torch::jit::Stack arguments_;
  std::vector<at::Tensor> sources_, leaves_;
  std::vector<bool> seeded_;
  friend class TaskRunBuilder;
};

}  // namespace rannc::codegen
