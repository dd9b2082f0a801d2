/// Computes blocks as intervals of fixed topological orders.
#pragma once

#include "partition/blocks/block_partitioner.h"

namespace rannc::partition {

/// Cuts several orders exactly by `cut_order` within the balance. The least crossing cost wins. No refinement.
class OrderDpBlocks : public BlockPartitioner {
 public:
  std::string_view name() const override { return "order-dp"; }

 private:
  BlockPartition search(const Dag& dag, std::span<const uint32_t> order, const BlockOptions& options) const override;
};

}  // namespace rannc::partition
