/// Partitions into blocks with METIS and makes the result acyclic.
#pragma once

#include "partition/blocks/block_partitioner.h"

namespace rannc::partition {

/// METIS cuts the undirected graph (Karypis and Kumar, SISC 1998) and ignores directions. Repair: number its blocks by
/// the mean position of their tasks; compute the topological order that prefers low blocks; cut that order by
/// `cut_order`; refine with rank moves. A second candidate first lifts each task to the highest block among its
/// predecessors. METIS counts edges, so it overprices a value with several readers.
class MetisBlocks : public BlockPartitioner {
 public:
  std::string_view name() const override { return "metis"; }

 private:
  BlockPartition search(const Dag& dag, std::span<const uint32_t> order, const BlockOptions& options) const override;
};

}  // namespace rannc::partition
