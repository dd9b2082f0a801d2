// Wraps every block search in checks that no implementation can skip.
#include "partition/blocks/block_partitioner.h"

#include <algorithm>
#include <sstream>

#include "partition/blocks/memory_fit.h"
#include "partition/blocks/metis_blocks.h"
#include "partition/blocks/multilevel_blocks.h"
#include "partition/blocks/order_dp.h"
#include "partition/blocks/rannc_blocks.h"
#include "partition/blocks/structural_order.h"

namespace rannc::partition {
namespace {

constexpr size_t kMaxDownSets = 50'000;

BlockOutcome impossible(std::string reason, uint32_t least_blocks = 0) {
  BlockOutcome outcome;
  outcome.reason = std::move(reason);
  outcome.proven = true;
  outcome.least_blocks = least_blocks;
  return outcome;
}

std::string label(const Dag& dag, uint32_t task) {
  std::string text = "#" + std::to_string(task);
  return dag.names.empty() || dag.names[task].empty() ? text : text + " (" + dag.names[task] + ")";
}

/// Returns the outcome of cases that need no search, or an outcome without a reason if a search is needed.
BlockOutcome settle(const Dag& dag, const BlockOptions& options) {
  if (options.blocks > dag.tasks()) {
    return impossible(std::to_string(options.blocks) + " blocks were requested from a graph of " +
                      std::to_string(dag.tasks()) + " tasks; every block needs at least one");
  }
  for (uint32_t t = 0; t < dag.tasks(); ++t) {
    const uint64_t bytes = memory_bytes(dag.resident_bytes[t], dag.stashed_bytes[t], options.in_flight);
    if (bytes <= options.memory_limit_bytes) continue;
    return impossible("task " + label(dag, t) + " alone needs " + std::to_string(bytes) + " bytes of " +
                      std::to_string(options.memory_limit_bytes) + " on a device");
  }
  return {};
}

BlockOutcome fall_back(const Dag& dag, std::span<const uint32_t> order, const BlockOptions& options) {
  MemoryFit fit = fit_memory(level_zero(dag, order, options.in_flight), options.blocks, options.memory_limit_bytes,
                             options.imbalance, kMaxDownSets);
  BlockOutcome outcome;
  outcome.least_blocks = fit.least_blocks;
  if (fit.block_of) {
    outcome.partition = BlockPartition{options.blocks, std::vector<uint32_t>(dag.tasks())};
    for (uint32_t i = 0; i < order.size(); ++i) outcome.partition->block_of[order[i]] = (*fit.block_of)[i];
    return outcome;
  }
  std::ostringstream reason;
  outcome.proven = fit.exhaustive;
  reason << "no partition into " << options.blocks << " blocks within " << options.memory_limit_bytes << " bytes each "
         << (fit.exhaustive ? "exists" : "was found") << ": at least " << fit.least_blocks << " blocks are needed";
  outcome.reason = reason.str();
  return outcome;
}

}  // namespace

Result<BlockOutcome> BlockPartitioner::partition(const Dag& dag, const BlockOptions& options) const {
  if (options.blocks == 0) return error("0 blocks were requested; at least 1 is needed");
  if (!(options.imbalance >= 0)) return error("the imbalance is negative or not a number");
  RANNC_ASSIGN(std::vector<uint32_t> order, validated_order(dag));
  if (options.ties == BlockTies::kByStructure) order = structural_order(dag, order);
  BlockOutcome outcome = settle(dag, options);
  if (!outcome.reason.empty()) return outcome;
  BlockPartition found = search(dag, order, options);
  const auto checked = check_partition(dag, found, options.memory_limit_bytes, options.in_flight);
  if (found.count == options.blocks && checked.ok()) {
    outcome.partition = std::move(found);
    return outcome;
  }
  // An empty result, a wrong number of blocks or too much memory requires another method. A broken order is our bug.
  RANNC_CHECK(found.block_of.empty() || checked.ok() || checked.diagnostic().rule == "Q4")
      << name() << ": " << checked.diagnostic().str();
  outcome = fall_back(dag, order, options);
  if (outcome.partition) {
    const auto again = check_partition(dag, *outcome.partition, options.memory_limit_bytes, options.in_flight);
    RANNC_CHECK(again.ok()) << again.diagnostic().str();
  }
  return outcome;
}

std::vector<std::string> block_partitioner_names() {
  return {"rannc", "rannc-no-uncoarsening", "metis", "order-dp", "multilevel"};
}

Result<std::unique_ptr<BlockPartitioner>> make_block_partitioner(std::string_view name) {
  if (name == "rannc") return {std::make_unique<RanncBlocks>(true)};
  if (name == "rannc-no-uncoarsening") return {std::make_unique<RanncBlocks>(false)};
  if (name == "metis") return {std::make_unique<MetisBlocks>()};
  if (name == "order-dp") return {std::make_unique<OrderDpBlocks>()};
  if (name == "multilevel") return {std::make_unique<MultilevelBlocks>()};
  std::ostringstream message;
  message << "there is no block partitioner '" << name << "'; known are";
  for (const std::string& known : block_partitioner_names()) message << ' ' << known;
  return error(message.str());
}

}  // namespace rannc::partition
