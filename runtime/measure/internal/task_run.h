/// Runs a model's tasks as the functions of a stage on synthetic operands.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "runtime/flat/stage_programs.h"
#include "runtime/measure/measure_tasks.h"

namespace rannc::runtime {

/// A stage that consists of these tasks. Weights are random, so that models without weight files can be measured.
/// Factors of random tasks are given. Integer operands are random within the extents that they index.
class TaskRun {
 public:
  using Tensors = std::vector<at::Tensor>;

  /// `tasks` in ascending order; `facts` are the graph's. LibTorch's exceptions pass through. On a device, all calls
  /// need a scope of its compute stream, and only enqueue work.
  static Result<std::unique_ptr<TaskRun>> build(const ir::Graph& graph, std::span<const TaskId> tasks,
                                                const GraphFacts& facts, const ir::Bindings& bindings,
                                                const TaskRunOptions& options);

  /// Results of a forward pass and what it keeps.
  struct Forward {
    Tensors outputs, saved;
  };
  /// P of a step.
  Result<void> begin();
  /// F. A P must have run.
  Result<Forward> forward();
  /// R, from the operands that `kept_by_whole_recompute` keeps.
  Result<void> rebuild();
  /// B for seeds of `prepare`. Frees saved values at their last reader if the caller holds no reference.
  Result<void> backward(Tensors saved);
  /// I. Returns what W takes.
  Result<Tensors> input(Tensors saved);
  /// W.
  Result<void> weight(Tensors arguments);
  /// E, from the sums of the backward passes since the last E.
  Result<void> end();
  /// Makes the seeds. Call it after the first forward pass.
  void prepare(const Forward& forward);

  /// Whether B, I and W do anything.
  bool has_backward() const { return has_input_ || has_weight_; }
  bool has_input() const { return has_input_; }
  bool has_weight() const { return has_weight_; }
  /// Whether P of a step, R and E do anything.
  bool has_begin() const { return !table_[ir::FunctionKind::kStep].tasks.empty(); }
  bool has_rebuild() const { return !table_[ir::FunctionKind::kRebuild].tasks.empty(); }
  bool has_end() const { return programs_.has_end; }
  /// Tasks of the graph that R repeats, ascending.
  std::vector<TaskId> rebuilt() const;
  /// Per output, whether it receives a gradient.
  const std::vector<bool>& seeded() const { return seeded_; }

 private:
  TaskRun() = default;
  Result<void> build_programs(const std::vector<ir::StageOutput>& outputs, const ir::Bindings& bindings,
                              at::Device device, ir::DeviceKernels kernels);
  Result<Tensors> call(FlatProgram& program, Tensors arguments);
  Tensors with_seeds(Tensors saved) const;

  std::vector<TaskId> tasks_;  // of the graph, by task of the stage
  ir::StageFunctions functions_;
  ir::FunctionTable table_;
  StagePlaces places_;
  SizeTable sizes_, load_sizes_;
  StagePrograms programs_;
  Tensors fixed_;  // by value of the joint graph
  Tensors seeds_, sums_;
  std::vector<at::Tensor*> sum_places_;
  std::vector<bool> seeded_;
  bool has_input_ = false, has_weight_ = false;
  friend class TaskRunBuilder;
};

}  // namespace rannc::runtime
