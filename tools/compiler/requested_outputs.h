/// Restricts a model to the outputs that its losses read if other outputs prevent training.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/loss/loss_spec.h"
#include "passes/manager.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// A model's graph after its passes.
struct Passed {
  ir::Graph graph;
  passes::PassContext context;
  passes::RunReport report;
  Batching batching;
};

/// Returns the result of `run` on the graph. If that fails or does not divide the mini-batch, runs it again on the
/// graph with only the outputs that `losses` read, and returns that result if it is better. A note names the omitted
/// outputs and the reason.
Passed run_for_losses(ir::Graph graph, const std::vector<passes::LossSpec>& losses,
                      const std::function<Passed(ir::Graph)>& run);

}  // namespace rannc::tools
