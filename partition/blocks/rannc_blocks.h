/// Implements RaNNC's block partitioner (III.B): coarsening, uncoarsening, compaction.
#pragma once

#include "partition/blocks/block_partitioner.h"
#include "partition/blocks/level_graph.h"

namespace rannc::partition {

/// Levels 0 … L*, and for each level but the last, the group of every node in the next level.
struct Hierarchy {
  std::vector<LevelGraph> levels;
  std::vector<std::vector<uint32_t>> parent;  ///< size levels - 1
};

/// Reports groupings of one level to a recorder in terms of the graph's tasks. Does nothing without a recorder.
class StepReporter {
 public:
  /// `order`: task of each level-0 node.
  StepReporter(BlockRecorder* recorder, std::span<const uint32_t> order) : recorder_(recorder), order_(order) {}
  bool active() const { return recorder_ != nullptr; }
  /// `group_of` is per node of level `level`.
  void report(BlockStep step, const Hierarchy& hierarchy, size_t level, std::vector<uint32_t> group_of) const;

 private:
  BlockRecorder* recorder_;
  std::span<const uint32_t> order_;
};

/// III.B, first step. Per level: pick v by ascending time, ties by id. Among the neighbours w, in ascending time of v u
/// w, take the first whose merge keeps the quotient acyclic and fits `memory_limit`; then both are used. Ends at k
/// groups, also inside a level; if nothing merges; or if a level removes less than 1 in 64 groups (a star would
/// otherwise take a level per leaf; compaction finishes it). At most `kMaxTrials` neighbours are tried per pick. With
/// the bounded tests of PairMatching this makes a level near-linear.
Hierarchy coarsen(LevelGraph graph, uint32_t k, uint64_t memory_limit, const StepReporter& report);

/// III.B, second step. From the coarsest level down: each node may move into a neighbour's block if the crossing cost
/// falls (ties: if the larger of the two works falls), the order of blocks is kept, the target fits `memory_limit` and
/// the source keeps a node. A move counts for all higher levels because only the finest level's block is stored.
/// `block_of` is per node of the coarsest level; the result is per node of level 0.
std::vector<uint32_t> uncoarsen(const Hierarchy& hierarchy, std::vector<uint32_t> block_of, uint32_t blocks,
                                uint64_t memory_limit, const StepReporter& report);

/// III.B, third step, on blocks in topological order. By ascending time, ties by place, merge v with the lighter of its
/// two list neighbours if that fits, else with the other, until k remain or nothing fits. Merging list neighbours is
/// safe because the quotient is acyclic. `block_of` is per node of level 0 and is renumbered. Returns the number of
/// blocks. O(blocks log blocks + nodes).
uint32_t compact(const Hierarchy& hierarchy, std::vector<uint32_t>& block_of, uint32_t blocks, uint32_t k,
                 uint64_t memory_limit, const StepReporter& report);

/// Runs the three steps in sequence. If compaction follows the moves, blocks are never worse than without the moves:
/// both are compacted, and the ones with the lower crossing cost are returned.
class RanncBlocks : public BlockPartitioner {
 public:
  explicit RanncBlocks(bool uncoarsening) : uncoarsening_(uncoarsening) {}
  std::string_view name() const override { return uncoarsening_ ? "rannc" : "rannc-no-uncoarsening"; }

 private:
  BlockPartition search(const Dag& dag, std::span<const uint32_t> order, const BlockOptions& options) const override;
  bool uncoarsening_;
};

}  // namespace rannc::partition
