/// Assigns the nodes of a model's graph to the stages of a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/onnx/internal/cut/cut_graph.h"
#include "frontend/onnx/internal/cut/tensor_types.h"

namespace rannc::frontend {

/// Per node, the stages of the plan's tasks that come from it. Empty for nodes that passes fused into others.
using NodeTasks = std::vector<std::vector<uint32_t>>;

/// Returns the stage of each node. Repeated and unneeded nodes have none (`CutGraph::kNone`). No node reads a tensor of
/// a later stage. Of all such assignments it is the one nearest to the plan: the fewest tasks are in a wrong stage,
/// counted at each boundary between stages. Among those the fewest bytes cross the boundaries, and among those nodes
/// are as late as possible.
///
/// Each boundary is a minimum cut. The cuts are nested because no node's preference for the earlier side decreases from
/// one boundary to the next (Gallo, Grigoriadis and Tarjan, 1989). Only nodes whose side does not follow from others
/// enter a network, so that the cost is linear in the model for a plan whose values are tensors of the file.
std::vector<uint32_t> assign_stages(const CutGraph& graph, const NodeTasks& tasks, uint32_t stages,
                                    const TensorTypes& types);

}  // namespace rannc::frontend
