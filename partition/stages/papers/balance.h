/// Balanced contiguous splits of a sequence of costs, and the planner `gpipe` on top.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// torchgpipe's method (Bárány and Grinberg, Block partitions of sequences): costs are scaled to [0, 1]; while the
/// largest block exceeds the smallest by more than 1, an element wanders from block to block towards the nearest
/// smallest one. The answer is within one largest cost of balanced, not optimal: up to 1.7 times the optimum. Ends of
/// the blocks. Needs 1 <= parts <= costs.size(), costs finite and >= 0.
std::vector<uint32_t> block_partition(const std::vector<double>& costs, uint32_t parts);

/// The least possible largest block, by bisection over sums: O(n log(sum / smallest gap)). Ends of the blocks, none
/// empty.
std::vector<uint32_t> exact_partition(const std::vector<double>& costs, uint32_t parts);

/// Largest sum of a block.
double largest_block(const std::vector<double>& costs, const std::vector<uint32_t>& ends);

enum class BalanceBy : uint8_t { kTime, kSize };
enum class BalanceMethod : uint8_t { kBlockPartition, kExact };

/// GPipe as torchgpipe plans it: one device per stage, blocks balanced by forward + backward time of a micro-batch or
/// by memory (parameters with optimizer state + stash), one stage per device unless the constraints say otherwise, fill
/// and drain. Among the micro-batch candidates it takes the least simulated time. Named `gpipe`, `gpipe-size`,
/// `gpipe-exact`, `gpipe-size-exact`. Forbidden cuts are honoured by balancing the fused blocks.
std::unique_ptr<StagePlanner> gpipe_planner(BalanceBy by = BalanceBy::kTime,
                                            BalanceMethod method = BalanceMethod::kBlockPartition);

}  // namespace rannc::partition
