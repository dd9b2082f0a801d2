/// Implements rannc's own multilevel block partitioner.
#pragma once

#include "partition/blocks/block_partitioner.h"

namespace rannc::partition {

/// Clusters by rank moves, cuts several orders of the coarsest graph exactly, and refines with rank moves by value gain
/// while uncoarsening. The invariant throughout: ids are ranks and no edge goes to a lower rank.
class MultilevelBlocks : public BlockPartitioner {
 public:
  std::string_view name() const override { return "multilevel"; }

 private:
  BlockPartition search(const Dag& dag, std::span<const uint32_t> order, const BlockOptions& options) const override;
};

}  // namespace rannc::partition
