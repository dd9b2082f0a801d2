/// Gradients of whole models by LibTorch's autograd, which tests compare with those of engines.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "ir/op/aten.h"
#include "tests/runtime/support/local_run.h"

namespace rannc::testing {

/// A graph of core operators whose calls LibTorch records. Refers to the graph, which must outlive it.
class TapedGraph {
 public:
  explicit TapedGraph(const ir::Graph& graph);

  /// Runs all tasks. `values` has the tensors of inputs, of stored tensors and of random inputs, by value; the results
  /// are added.
  void run(const ir::Bindings& sizes, bool training, std::vector<std::optional<at::Tensor>>& values) const;

 private:
  const ir::Graph& graph_;
  std::vector<ir::aten::Lowering> calls_;  ///< by task
};

/// Stored tensors by value. Trained parameters are leaves if `training`.
std::vector<std::optional<at::Tensor>> stored_tensors(const ir::Graph& graph, bool training);

/// As `run_locally`, but without stages: a tape per micro-batch over the whole model. Without buffers and peak.
Numbers run_taped(const ir::Plan& plan, const std::map<std::string, at::Tensor>& batch,
                  const std::vector<double>& denominators, const RunOptions& options = {});

}  // namespace rannc::testing
