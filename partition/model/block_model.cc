#include "partition/model/block_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "partition/blocks/block_partitioner.h"

namespace rannc::partition {

namespace {

// Memory of the largest device: what does not fit there fits nowhere.
uint64_t memory_limit(const Cluster& cluster, const std::optional<uint64_t>& demanded) {
  uint64_t limit = 0;
  for (const DeviceKind& kind : cluster.kinds)
    limit = std::max(limit, kind.memory_bytes == 0 ? UINT64_MAX : kind.memory_bytes);
  return demanded ? std::min(limit, *demanded) : limit;
}

// Tries the requested number of blocks and larger ones until one fits. Leaves the number in `options`.
Result<BlockOutcome> fitting_blocks(const BlockPartitioner& partitioner, const Dag& dag, BlockOptions& options) {
  while (true) {
    RANNC_ASSIGN(BlockOutcome outcome, partitioner.partition(dag, options));
    if (outcome.partition || outcome.least_blocks == 0 || options.blocks == dag.tasks()) return outcome;
    const uint32_t next = options.blocks + 1 + options.blocks / 8;
    options.blocks = std::min(dag.tasks(), outcome.least_blocks > options.blocks ? outcome.least_blocks : next);
  }
}

double largest_atom_bytes(const Dag& dag) {
  uint64_t largest = 0;
  for (uint32_t t = 0; t < dag.tasks(); ++t)
    largest = std::max(largest, memory_bytes(dag.resident_bytes[t], dag.stashed_bytes[t], 1));
  return static_cast<double>(largest);
}

}  // namespace

Result<std::variant<BlockedModel, Infeasible>> block_model(const ModelFacts& model, const Cluster& cluster,
                                                           const BlockModelOptions& options) {
  using Outcome = std::variant<BlockedModel, Infeasible>;
  RANNC_ASSIGN(Dag dag, atom_dag(model, cluster, options.samples));
  RANNC_ASSIGN(const auto partitioner, make_block_partitioner(options.partitioner));
  const uint32_t requested = std::min(options.blocks, dag.tasks());
  BlockOptions block_options;
  block_options.blocks = requested;
  block_options.memory_limit_bytes = memory_limit(cluster, options.memory_bytes);
  RANNC_ASSIGN(BlockOutcome outcome, fitting_blocks(*partitioner, dag, block_options));
  if (!outcome.partition) {
    const double missing = largest_atom_bytes(dag) - static_cast<double>(block_options.memory_limit_bytes);
    return Outcome(
        Infeasible{outcome.reason, std::max(0.0, missing), "devices with more memory, or a smaller micro-batch"});
  }
  BlockedModel blocked;
  if (outcome.partition->count > requested) {
    blocked.remark =
        fmt::format("{} blocks do not fit the devices' memory: using {} blocks", requested, outcome.partition->count);
  }
  blocked.metrics = measure(dag, outcome.partition->block_of, outcome.partition->count);
  blocked.partition = std::move(*outcome.partition);
  blocked.atoms = std::move(dag);
  return Outcome(std::move(blocked));
}

}  // namespace rannc::partition
