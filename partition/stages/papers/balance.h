/// Computes balanced contiguous splits of a sequence of costs for the planner `gpipe`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// torchgpipe's method (Bárány and Grinberg, Block partitions of sequences). Costs are scaled to [0, 1]. While the
/// largest block exceeds the smallest by more than 1, an element moves from block to block towards the nearest smallest
/// block. The result is within one largest cost of balanced, not optimal: up to 1.7 times the optimum. Returns the ends
/// of the blocks. Needs 1 <= parts <= costs.size(), costs finite and >= 0.
std::vector<uint32_t> block_partition(const std::vector<double>& costs, uint32_t parts);

/// Minimises the largest block, by bisection over sums: O(n log(sum / smallest gap)). Returns the ends of the blocks,
/// none empty.
std::vector<uint32_t> exact_partition(const std::vector<double>& costs, uint32_t parts);

/// Returns the largest sum of a block.
double largest_block(const std::vector<double>& costs, const std::vector<uint32_t>& ends);

enum class BalanceBy : uint8_t { kTime, kSize };
enum class BalanceMethod : uint8_t { kBlockPartition, kExact };

/// GPipe as torchgpipe plans it: one device per stage, fill and drain, blocks balanced by forward + backward time of a
/// micro-batch or by memory (parameters with optimizer state + stash). There is one stage per device unless the
/// constraints specify otherwise. Takes the micro-batch candidate with the least simulated time. Named `gpipe`,
/// `gpipe-size`, `gpipe-exact`, `gpipe-size-exact`. Forbidden cuts are respected by balancing the fused blocks.
std::unique_ptr<StagePlanner> gpipe_planner(BalanceBy by = BalanceBy::kTime,
                                            BalanceMethod method = BalanceMethod::kBlockPartition);

}  // namespace rannc::partition
