/// Merges a loss from a graph of its own into the model whose outputs it reads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/loss/loss_spec.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Describes how the graph of a loss reads a model.
struct LossGraph {
  std::string file;  ///< for messages
  std::map<std::string, std::string>
      inputs;                             ///< input of the loss -> output or input of the model, where the names differ
  std::map<std::string, double> weights;  ///< by output of the loss; default 1
};

/// Adds the tasks of `loss` to `model`, and its outputs, of one element each, to the outputs of `model`. An input of
/// the loss is matched to the model's output that `inputs` names or that has its name, else to the model's input of
/// that name. Other inputs become inputs `labels/<name>` of the model. Symbols of the loss are identified with those of
/// the model at the same places; the others stay. Constants of the loss are copied and keep their names unless the
/// model uses them.
///
/// Before: both as imported. After: one graph with types, and terms of kind in_graph for open-loss. It is an error,
/// which names both places, if types differ, if the loss reads nothing of the model, or if an output is not a scalar.
Result<std::vector<LossSpec>> join_loss(ir::Graph& model, const ir::Graph& loss, const LossGraph& how);

}  // namespace rannc::passes
