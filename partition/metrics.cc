// Measures loads and crossing values of a partition, and tests its acyclicity.
#include "partition/metrics.h"

#include <algorithm>
#include <limits>

namespace rannc::partition {

uint64_t memory_bytes(uint64_t resident, uint64_t stashed, uint32_t in_flight) {
  uint64_t product = 0, sum = 0;
  if (__builtin_mul_overflow(stashed, uint64_t{in_flight}, &product)) return std::numeric_limits<uint64_t>::max();
  if (__builtin_add_overflow(resident, product, &sum)) return std::numeric_limits<uint64_t>::max();
  return sum;
}

PartitionMetrics measure(const Dag& dag, std::span<const uint32_t> block_of, uint32_t count) {
  RANNC_CHECK(block_of.size() == dag.tasks());
  PartitionMetrics metrics;
  metrics.blocks.resize(count);
  for (uint32_t t = 0; t < dag.tasks(); ++t) {
    BlockLoad& block = metrics.blocks.at(block_of[t]);
    block.work += dag.work(t);
    block.resident_bytes += dag.resident_bytes[t];
    block.stashed_bytes += dag.stashed_bytes[t];
    ++block.tasks;
  }
  std::vector<uint32_t> last_value(count, UINT32_MAX);
  for (uint32_t v = 0; v < dag.values(); ++v) {
    const uint32_t home = block_of[dag.value_producer[v]];
    bool leaves = false;
    for (uint32_t reader : dag.value_readers.row(v)) {
      const uint32_t block = block_of[reader];
      if (block == home || last_value[block] == v) continue;
      last_value[block] = v;
      leaves = true;
      metrics.blocks[block].in += dag.value_cost[v];
      metrics.crossing_cost += dag.value_cost[v];
      metrics.crossing_bytes += dag.value_bytes[v];
      ++metrics.crossing_values;
    }
    if (leaves) metrics.blocks[home].out += dag.value_cost[v];
  }
  for (const BlockLoad& block : metrics.blocks) {
    metrics.largest_work = std::max(metrics.largest_work, block.work);
    metrics.largest_load = std::max(metrics.largest_load, block.load());
    metrics.largest_memory_bytes =
        std::max(metrics.largest_memory_bytes, memory_bytes(block.resident_bytes, block.stashed_bytes, 1));
  }
  return metrics;
}

bool quotient_is_acyclic(const Dag& dag, std::span<const uint32_t> block_of, uint32_t count) {
  std::vector<uint32_t> missing(count, 0);
  std::vector<std::vector<uint32_t>> successors(count);
  for (uint32_t v = 0; v < dag.values(); ++v) {
    const uint32_t home = block_of[dag.value_producer[v]];
    for (uint32_t reader : dag.value_readers.row(v)) {
      if (block_of[reader] == home) continue;
      successors[home].push_back(block_of[reader]);
      ++missing[block_of[reader]];
    }
  }
  std::vector<uint32_t> ready;
  for (uint32_t b = 0; b < count; ++b) {
    if (missing[b] == 0) ready.push_back(b);
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    for (uint32_t next : successors[ready[i]]) {
      if (--missing[next] == 0) ready.push_back(next);
    }
  }
  return ready.size() == count;
}

bool block_is_convex(const Dag& dag, std::span<const uint32_t> block_of, uint32_t block) {
  std::vector<uint32_t> stack;
  std::vector<bool> outside(dag.tasks(), false);  // reached by a path that has left the block
  for (uint32_t t = 0; t < dag.tasks(); ++t) {
    if (block_of[t] == block) stack.push_back(t);
  }
  while (!stack.empty()) {
    const uint32_t task = stack.back();
    stack.pop_back();
    for (uint32_t v : dag.task_outputs.row(task)) {
      for (uint32_t reader : dag.value_readers.row(v)) {
        if (block_of[reader] == block) {
          if (outside[task]) return false;
        } else if (!outside[reader]) {
          outside[reader] = true;
          stack.push_back(reader);
        }
      }
    }
  }
  return true;
}

Result<void> check_partition(const Dag& dag, const BlockPartition& partition, uint64_t memory_limit_bytes,
                             uint32_t in_flight) {
  const auto fail = [](const char* rule, std::string message) { return error(Location{}, std::move(message), rule); };
  if (partition.block_of.size() != dag.tasks()) return fail("Q1", "the partition does not cover the graph's tasks");
  for (uint32_t t = 0; t < dag.tasks(); ++t) {
    if (partition.block_of[t] < partition.count) continue;
    return fail("Q1", "task #" + std::to_string(t) + " is in block " + std::to_string(partition.block_of[t]) + " of " +
                          std::to_string(partition.count));
  }
  for (uint32_t v = 0; v < dag.values(); ++v) {
    const uint32_t producer = dag.value_producer[v];
    for (uint32_t reader : dag.value_readers.row(v)) {
      if (partition.block_of[producer] <= partition.block_of[reader]) continue;
      return fail("Q3", "value " + std::to_string(v) + " goes back from block " +
                            std::to_string(partition.block_of[producer]) + " to block " +
                            std::to_string(partition.block_of[reader]));
    }
  }
  const PartitionMetrics metrics = measure(dag, partition.block_of, partition.count);
  for (uint32_t b = 0; b < partition.count; ++b) {
    const BlockLoad& block = metrics.blocks[b];
    if (block.tasks == 0) return fail("Q2", "block " + std::to_string(b) + " is empty");
    const uint64_t bytes = memory_bytes(block.resident_bytes, block.stashed_bytes, in_flight);
    if (bytes > memory_limit_bytes) {
      return fail("Q4", "block " + std::to_string(b) + " needs " + std::to_string(bytes) + " bytes of " +
                            std::to_string(memory_limit_bytes));
    }
  }
  return {};
}

}  // namespace rannc::partition
