/// Cuts a model's atoms into blocks.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "partition/metrics.h"
#include "partition/model/atom_dag.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// What block cutting is told.
struct BlockModelOptions {
  uint32_t blocks = 32;  ///< k (RaNNC IV.A); fewer where the model has fewer atoms, more where memory asks for it
  std::string partitioner = "rannc";  ///< of `block_partitioner_names`
  AtomSamples samples;
  std::optional<uint64_t> memory_bytes;  ///< lowers the devices' own limit
};

/// Blocks of a model, ranks in topological order, or why there are none.
struct BlockedModel {
  Dag atoms;                 ///< what was cut
  BlockPartition partition;  ///< per atom
  PartitionMetrics metrics;
  std::string remark;  ///< empty, or why there are more blocks than were asked for
};
/// Where `options.blocks` blocks cannot be held by the devices, more are cut: the least number that memory asks for, or
/// the first above it, in steps of an eighth, into which the partitioner finds a way.
Result<std::variant<BlockedModel, Infeasible>> block_model(const ModelFacts& model, const Cluster& cluster,
                                                           const BlockModelOptions& options);

}  // namespace rannc::partition
