/// Defines the interface of algorithms that cut a task graph into blocks (RaNNC III.B).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partition/dag.h"
#include "partition/metrics.h"

namespace rannc::partition {

/// Kind of step that is reported to a recorder.
enum class BlockStep { kMerge, kMove, kCompact };

/// How ties are broken. By structure, renumbered tasks give the same blocks (except between symmetric tasks), at about
/// a third more time on graphs with shuffled ids.
enum class BlockTies { kById, kByStructure };

/// Receives the grouping after every single step; for tests. Each call costs O(tasks), so omit it otherwise.
class BlockRecorder {
 public:
  virtual ~BlockRecorder() = default;
  /// `group_of` has one entry < groups per task of the Dag; the numbering of groups is arbitrary.
  virtual void step(BlockStep step, std::span<const uint32_t> group_of, uint32_t groups) = 0;
};

struct BlockOptions {
  uint32_t blocks = 1;                                                 ///< k, the exact number requested
  uint64_t memory_limit_bytes = std::numeric_limits<uint64_t>::max();  ///< of one device; inclusive
  uint32_t in_flight = 1;                                              ///< micro-batches whose stash is held at once
  double imbalance = 0.03;  ///< largest work may be (1 + imbalance) * total / k, or that plus the heaviest task;
                            ///< `rannc` has no such rule and ignores it
  uint64_t seed = 1;
  BlockTies ties = BlockTies::kById;
  uint32_t threads = 1;  ///< used by `multilevel` for its first candidates; the result does not depend on it
  bool refine = true;    ///< false: no uncoarsening or refinement (an ablation)
  BlockRecorder* recorder = nullptr;  ///< not owned
};

/// A partition into exactly k blocks, or why there is none.
struct BlockOutcome {
  std::optional<BlockPartition> partition;
  std::string reason;         ///< the cause if there is no partition
  bool proven = false;        ///< true: no partition exists; false: none was found
  uint32_t least_blocks = 0;  ///< a lower bound on the number of blocks that the memory limit requires
};

/// Cuts a graph into blocks. Stateless and deterministic: same graph, options and seed give the same bytes.
class BlockPartitioner {
 public:
  virtual ~BlockPartitioner() = default;
  /// Validates the graph, handles cases without a search (k = 0, k > tasks, a task larger than a device), searches, and
  /// verifies the result: rules Q1 … Q4 of `check_partition`. Errors: rules A1 … A5, or k = 0.
  Result<BlockOutcome> partition(const Dag& dag, const BlockOptions& options) const;
  virtual std::string_view name() const = 0;

 private:
  /// `dag` is valid, `order` its topological order, 1 <= k <= tasks, every task fits. Returns block ids that are ranks,
  /// none empty. If the result is empty, does not have k blocks or exceeds memory, `partition` tries other means before
  /// it gives up.
  virtual BlockPartition search(const Dag& dag, std::span<const uint32_t> order, const BlockOptions& options) const = 0;
};

/// Returns `rannc` | `rannc-no-uncoarsening` | `metis` | `order-dp` | `multilevel`. Another name is an error that lists
/// these.
Result<std::unique_ptr<BlockPartitioner>> make_block_partitioner(std::string_view name);

/// All names that `make_block_partitioner` accepts.
std::vector<std::string> block_partitioner_names();

}  // namespace rannc::partition
