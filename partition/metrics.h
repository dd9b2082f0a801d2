/// Measures and verifies a partition from the graph alone, whichever algorithm made it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/dag.h"

namespace rannc::partition {

/// A partition of the tasks into blocks 0 … count-1. Block ids are ranks: every edge u -> v has block_of[u] <=
/// block_of[v].
struct BlockPartition {
  uint32_t count = 0;
  std::vector<uint32_t> block_of;  ///< per task
  bool operator==(const BlockPartition&) const = default;
};

/// Work, traffic and memory of one block.
struct BlockLoad {
  double work = 0;  ///< forward + backward time of its tasks
  double in = 0;    ///< cost of the distinct values it reads from other blocks
  double out = 0;   ///< cost of the distinct values it produces that any other block reads, once each
  uint64_t resident_bytes = 0;
  uint64_t stashed_bytes = 0;  ///< per micro-batch in flight
  uint32_t tasks = 0;
  double load() const { return work + in + out; }
};

/// Metrics of a partition. A value counts once per receiving block, never per reader.
struct PartitionMetrics {
  std::vector<BlockLoad> blocks;
  uint64_t crossing_values = 0;  ///< number of (value, receiving block) pairs
  uint64_t crossing_bytes = 0;
  double crossing_cost = 0;
  double largest_work = 0;
  double largest_load = 0;
  uint64_t largest_memory_bytes = 0;  ///< resident + stashed of one micro-batch
};

/// Computes the metrics in O(tasks + pins). `block_of` has one entry < count per task. The quotient may be cyclic.
PartitionMetrics measure(const Dag& dag, std::span<const uint32_t> block_of, uint32_t count);

/// True iff the graph of blocks has no cycle, whatever the numbering; O(tasks + pins).
bool quotient_is_acyclic(const Dag& dag, std::span<const uint32_t> block_of, uint32_t count);

/// True iff no path leaves the block and comes back (RaNNC III.B); O(tasks + pins) for one block.
bool block_is_convex(const Dag& dag, std::span<const uint32_t> block_of, uint32_t block);

/// Verifies a finished partition:
///   Q1 one block id < count per task   Q2 no empty block   Q3 block ids are ranks (so the quotient is acyclic)
///   Q4 resident + in_flight * stashed bytes of each block <= memory_limit_bytes
Result<void> check_partition(const Dag& dag, const BlockPartition& partition, uint64_t memory_limit_bytes,
                             uint32_t in_flight);

/// resident + in_flight * stashed, saturating.
uint64_t memory_bytes(uint64_t resident, uint64_t stashed, uint32_t in_flight);

}  // namespace rannc::partition
