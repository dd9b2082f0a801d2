/// Runs a graph in double precision within one process.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/aten/graph_run.h"

namespace rannc::tools {

/// Caches tensors of stored values, with floats widened to doubles. Graphs made from one file share their bytes, which
/// are widened only once.
class WideTensors {
 public:
  Result<at::Tensor> of(const ir::ValueType& type, const ir::TensorData& data);

 private:
  std::map<std::string, at::Tensor> known_;
};

/// A graph with its weights, run task by task, without a tape, in evaluation mode. Normalizations use running
/// statistics, since mini-batch statistics would mix samples.
class Float64Run {
 public:
  /// Loads the graph's weights through `tensors`. It is an error if weights are absent.
  static Result<Float64Run> load(const ir::Graph& graph, WideTensors& tensors);

  /// Returns the loaded graph with floats replaced by doubles. Ids are the same.
  const ir::Graph& graph() const { return graph_; }
  /// Peak bytes of a run without the weights, assuming that no result shares memory with another. Values of unknown
  /// size count as 0.
  double peak_bytes(const ir::Bindings& sizes) const;
  /// Floating-point operations of a run.
  double flops(const ir::Bindings& sizes) const;
  /// Runs the graph. `given` has the inputs and random inputs by value. Returns outputs and numerators of losses by
  /// value. A diagnostic names the task that fails.
  Result<runtime::GraphValues> run(const runtime::GraphValues& given, const ir::Bindings& sizes) const;

 private:
  explicit Float64Run(ir::Graph graph);
  bool is_freed_after(TaskId task, ValueId input) const;

  ir::Graph graph_;
  std::vector<TaskId> last_;  // by value: its last reader; invalid: unread or kept
  std::vector<bool> kept_;    // by value: outputs and numerators
  runtime::GraphValues stored_;
};

}  // namespace rannc::tools
