/// The interface of everything that cuts a task graph into blocks (RaNNC III.B).
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

/// Which step a recorder is shown.
enum class BlockStep { kMerge, kMove, kCompact };

/// What breaks ties. By structure, a renumbering of the tasks gives the same blocks (but between tasks that are
/// symmetric); it costs about a third more time on graphs whose ids are shuffled.
enum class BlockTies { kById, kByStructure };

/// Sees the grouping after every single step; for tests. Each call costs O(tasks), so leave it out otherwise.
class BlockRecorder {
 public:
  virtual ~BlockRecorder() = default;
  /// `group_of` has one entry < groups per task of the Dag; the numbering of groups means nothing.
  virtual void step(BlockStep step, std::span<const uint32_t> group_of, uint32_t groups) = 0;
};

struct BlockOptions {
  uint32_t blocks = 1;                                                 ///< k, the exact number wanted
  uint64_t memory_limit_bytes = std::numeric_limits<uint64_t>::max();  ///< of one device; may be met, not exceeded
  uint32_t in_flight = 1;                                              ///< micro-batches whose stash is held at once
  double imbalance = 0.03;  ///< largest work may be (1 + imbalance) * total / k, or that plus the heaviest task;
                            ///< `rannc` has no such rule and ignores it
  uint64_t seed = 1;
  BlockTies ties = BlockTies::kById;
  uint32_t threads = 1;  ///< used by `multilevel` for its first candidates; the result does not depend on it
  bool refine = true;    ///< off: no uncoarsening or refinement (an ablation)
  BlockRecorder* recorder = nullptr;  ///< not owned
};

/// A partition into exactly k blocks, or why there is none.
struct BlockOutcome {
  std::optional<BlockPartition> partition;
  std::string reason;         ///< names the cause where there is no partition
  bool proven = false;        ///< no partition exists, as opposed to none was found
  uint32_t least_blocks = 0;  ///< a lower bound on the blocks that the memory limit asks for
};

/// Cuts a graph into blocks. Stateless, deterministic: same graph, options and seed give the same bytes.
class BlockPartitioner {
 public:
  virtual ~BlockPartitioner() = default;
  /// Validates the graph, settles what needs no search (k = 0, k > tasks, a task larger than a device), searches,
  /// and verifies the answer: rules Q1 … Q4 of `check_partition`. Errors: rules A1 … A5, or k = 0.
  Result<BlockOutcome> partition(const Dag& dag, const BlockOptions& options) const;
  virtual std::string_view name() const = 0;

 private:
  /// `dag` is valid, `order` its topological order, 1 <= k <= tasks, every task fits. Returns block ids that are ranks,
  /// none empty; nothing, fewer or more than k, or blocks beyond memory, make `partition` look for k by other means
  /// before it gives up.
  virtual BlockPartition search(const Dag& dag, std::span<const uint32_t> order, const BlockOptions& options) const = 0;
};

/// `rannc` | `rannc-no-uncoarsening` | `metis` | `order-dp` | `multilevel`; a diagnostic lists them otherwise.
Result<std::unique_ptr<BlockPartitioner>> make_block_partitioner(std::string_view name);

/// All names that `make_block_partitioner` knows.
std::vector<std::string> block_partitioner_names();

}  // namespace rannc::partition
