/// From a graph with atoms to blocks, and from blocks to what stage planners are given.
#pragma once

#include <string>

#include "ir/atoms.h"
#include "ir/graph.h"
#include "partition/metrics.h"
#include "partition/model/model_costs.h"
#include "partition/stages/plan.h"
#include "partition/stages/problem.h"

namespace rannc::partition {

/// The task graph of a model's atoms at one micro-batch size on one device kind. Task i of the Dag is atom i. Costs of
/// constant tasks count once for every atom that reads them directly.
Result<Dag> atom_dag(const ir::Graph& graph, const ir::Atoms& atoms, const ModelCosts& costs, size_t size,
                     const Cluster& cluster, const ir::Bindings& assume, double optimizer_factor);

/// What block cutting is told.
struct BlockModelOptions {
  uint32_t blocks = 32;               ///< k (RaNNC IV.A); fewer where the model has fewer atoms
  std::string partitioner = "rannc";  ///< of `block_partitioner_names`
  uint64_t reference_samples = 1;     ///< micro-batch size at which blocks are balanced
  double optimizer_factor = 2;
};

/// Blocks of a model, ranks in topological order, or why there are none.
struct BlockedModel {
  BlockPartition partition;  ///< per atom
  PartitionMetrics metrics;
};
Result<std::variant<BlockedModel, Infeasible>> block_model(const ir::Graph& graph, const ir::Atoms& atoms,
                                                           const ModelCosts& costs, const Cluster& cluster,
                                                           const ir::Bindings& assume,
                                                           const BlockModelOptions& options);

/// Fills everything of a stage problem that follows from the model: times, bytes, crossing values, names. The caller
/// adds cluster, mini-batch and demands.
Result<StageProblem> stage_problem(const ir::Graph& graph, const ir::Atoms& atoms, const ModelCosts& costs,
                                   const BlockPartition& blocks, const ir::Bindings& assume);

}  // namespace rannc::partition
