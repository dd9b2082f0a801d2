/// Outputs that a loss reads: what computes others does not keep a model from being trained.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/loss/loss_spec.h"
#include "passes/manager.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Names of outputs that the losses of `options` may read, for the reader of the model's file. None: all are needed, as
/// of a model without a loss, or of a loss that names no output.
Result<std::vector<std::string>> asked_outputs(const CompileOptions& options,
                                               const std::vector<passes::LossSpec>& losses);

/// A model's graph and what its passes say of it.
struct Passed {
  ir::Graph graph;
  passes::PassContext context;
  passes::RunReport report;
};

/// What `run` makes of the graph; where it fails, or leaves the mini-batch whole, what it makes of the graph with the
/// outputs alone that `losses` read, if that is better. A note says which outputs are left out, and why.
Passed run_for_losses(ir::Graph graph, const std::vector<passes::LossSpec>& losses,
                      const std::function<Passed(ir::Graph)>& run);

}  // namespace rannc::tools
