/// Cuts a model's atoms into blocks.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "partition/metrics.h"
#include "partition/model/atom_dag.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Options of block partitioning.
struct BlockModelOptions {
  uint32_t blocks = 32;  ///< k (RaNNC IV.A); fewer if the model has fewer atoms, more if memory requires it
  std::string partitioner = "rannc";  ///< one of `block_partitioner_names`
  AtomSamples samples;
  std::optional<uint64_t> memory_bytes;  ///< lowers the devices' own limit
};

/// Blocks of a model; block ids are ranks in topological order.
struct BlockedModel {
  Dag atoms;                 ///< the graph that was cut
  BlockPartition partition;  ///< per atom
  PartitionMetrics metrics;
  std::string remark;  ///< empty, or why there are more blocks than requested
};
/// Cuts the model into `options.blocks` blocks. If the devices cannot hold these, cuts more: the least number that
/// memory requires, or the first larger number, in steps of an eighth, for which the partitioner finds a partition.
Result<std::variant<BlockedModel, Infeasible>> block_model(const ModelFacts& model, const Cluster& cluster,
                                                           const BlockModelOptions& options);

}  // namespace rannc::partition
