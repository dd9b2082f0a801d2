/// Runs a graph as one process, in double precision.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/aten/graph_run.h"

namespace rannc::tools {

/// Tensors of stored values, floats as doubles. Graphs made from one file read the same bytes: these are widened once.
class WideTensors {
 public:
  Result<at::Tensor> of(const ir::ValueType& type, const ir::TensorData& data);

 private:
  std::map<std::string, at::Tensor> known_;
};

/// A graph with its weights. Task by task, without a tape, as in evaluation: normalisations take their running
/// statistics, since those of a mini-batch would mix its samples.
class Float64Run {
 public:
  /// An error where weights are absent. `tensors` holds what the run reads.
  static Result<Float64Run> load(const ir::Graph& graph, WideTensors& tensors);

  /// Types are doubles where those of the loaded graph are floats; ids are the same.
  const ir::Graph& graph() const { return graph_; }
  /// Bytes that a run takes at most beside the weights, where no result shares memory with another; sizes that are not
  /// known count nothing.
  double peak_bytes(const ir::Bindings& sizes) const;
  /// Floating-point operations of a run.
  double flops(const ir::Bindings& sizes) const;
  /// Inputs and draws by value; returns the outputs and the numerators of losses, by value. A diagnostic names the task
  /// that fails.
  Result<runtime::GraphValues> run(const runtime::GraphValues& given, const ir::Bindings& sizes) const;

 private:
  explicit Float64Run(ir::Graph graph);
  bool is_freed_after(TaskId task, ValueId input) const;

  ir::Graph graph_;
  std::vector<TaskId> last_;  // by value: who reads it last; invalid: nobody, or it is kept
  std::vector<bool> kept_;    // by value: outputs and numerators
  runtime::GraphValues stored_;
};

}  // namespace rannc::tools
