/// Joins a loss that stands in a graph of its own to the model whose outputs it reads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/loss/loss_spec.h"
#include "passes/pass.h"

namespace rannc::passes {

/// How a graph of a loss reads a model.
struct LossGraph {
  std::string file;                           ///< for messages
  std::map<std::string, std::string> inputs;  ///< input of the loss by the model's output, or input, of another name
  std::map<std::string, double> weights;      ///< of its outputs; 1 where none is given
};

/// Adds the tasks of `loss` to `model`, and its outputs, of one element each, as outputs of `model`. An input of the
/// loss is the model's output that `inputs` names or that has its name, else the model's input of that name; what is
/// left becomes an input `labels/<name>` of the model. Symbols of the loss are those of the model at the same places;
/// other ones stay. Constants of the loss are copied; they keep their names where the model has none of it.
///
/// Before: both as imported. After: one graph with types, and terms of kind in_graph that open-loss takes. An error
/// names both places where types differ, where the loss reads nothing of the model, or where an output is no scalar.
Result<std::vector<LossSpec>> join_loss(ir::Graph& model, const ir::Graph& loss, const LossGraph& how);

}  // namespace rannc::passes
