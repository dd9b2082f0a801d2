/// Splits blocks so that stages can also end inside coarse blocks.
#pragma once

#include <vector>

#include "partition/dag.h"
#include "partition/metrics.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// A partition whose blocks lie within those of another.
struct FinerBlocks {
  BlockPartition partition;     ///< ranks in topological order, as before
  std::vector<uint32_t> first;  ///< per old block, plus one entry past the end: its first new block
};

/// Cuts each block b of `blocks` into `pieces[b]` convex pieces of about equal work with little traffic between them. A
/// block with fewer tasks gets fewer pieces. Block ids must be ranks. Runs `multilevel` on the tasks of each block.
/// Cutting a convex block along an order of its tasks keeps the quotient acyclic. Errors: those of
/// `BlockPartitioner::partition`.
Result<FinerBlocks> split_blocks(const Dag& dag, const BlockPartition& blocks, const std::vector<uint32_t>& pieces);

/// Returns the number of pieces to split each block into: `pieces` for the two blocks beside each cut of the plan, else
/// 1.
std::vector<uint32_t> pieces_at_cuts(const StagePlan& plan, uint32_t blocks, uint32_t pieces);

/// Returns the same plan over the finer blocks. The results of judging it are not updated.
StagePlan over_finer_blocks(StagePlan plan, const FinerBlocks& finer);

}  // namespace rannc::partition
