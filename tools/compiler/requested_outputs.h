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

/// Returns the names of outputs that the losses of `options` may read. Empty: all outputs are required, since there is
/// no loss, or a loss names no output.
Result<std::vector<std::string>> outputs_of_losses(const ModelOptions& options);

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
