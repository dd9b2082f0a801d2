/// Describes one model to cost models, block partitioners and stage planners.
#pragma once

#include "ir/graph/graph.h"
#include "ir/plan/atoms.h"
#include "ir/plan/parameter_updates.h"
#include "partition/model/model_costs.h"
#include "partition/model/task_memory.h"

namespace rannc::partition {

/// A model with its prices and its purpose. Refers to objects that the caller owns.
struct ModelFacts {
  const ir::Graph& graph;
  const ir::Atoms& atoms;
  const ModelCosts& costs;
  const TaskMemory& memory;
  const ir::Bindings& assume;  ///< values of symbols other than the batch
  bool training = true;        ///< false: no backward pass, gradients, optimizer state or stash
  const ir::ParameterUpdates& updates;

  /// Memory of a parameter on a device, in multiples of its size: itself, the sum of its gradients, optimizer state.
  double copies(ValueId parameter) const {
    return training ? 1 + sum_ratio(graph.type(parameter).dtype) + updates.state_copies(parameter) : 1;
  }
};

}  // namespace rannc::partition
