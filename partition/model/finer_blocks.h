/// Splits blocks, so that the stages of a plan can end between the places that coarse blocks offer.
#pragma once

#include <vector>

#include "partition/dag.h"
#include "partition/metrics.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// A partition whose blocks lie within those of another.
struct FinerBlocks {
  BlockPartition partition;     ///< ranks in topological order, as before
  std::vector<uint32_t> first;  ///< per old block, and one beyond: its first new block
};

/// Cuts block b of `blocks`, whose ids are ranks, into `pieces[b]` convex pieces of about equal work with little
/// traffic between them (`multilevel` on the block's own tasks); fewer where it has fewer tasks. A convex block cut
/// along an order of its tasks leaves the quotient acyclic. Errors: those of `BlockPartitioner::partition`.
Result<FinerBlocks> split_blocks(const Dag& dag, const BlockPartition& blocks, const std::vector<uint32_t>& pieces);

/// Into how many pieces each of the `blocks` is worth splitting: `pieces` for the two beside each cut of the plan.
std::vector<uint32_t> pieces_at_cuts(const StagePlan& plan, uint32_t blocks, uint32_t pieces);

/// The same plan over the finer blocks; what was judged is judged anew by whoever needs it.
StagePlan over_finer_blocks(StagePlan plan, const FinerBlocks& finer);

}  // namespace rannc::partition
