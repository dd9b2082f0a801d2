/// Cuts a fixed topological order into k intervals optimally.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

struct IntervalLimits {
  uint32_t blocks = 1;
  double work = 0;  ///< largest work of a block; infinity for none
  uint64_t memory = UINT64_MAX;
};

/// Returns the work that a balanced partition may put on one block: (1 + imbalance) * W / k, or W / k + the heaviest
/// node if that is more (some order of k intervals always satisfies it).
double work_limit(const LevelGraph& graph, uint32_t blocks, double imbalance);

/// Returns the block of each node that minimises the cost of the values live at the cuts, with each block non-empty and
/// within the limits; nothing if no cut of this order is. Exact for that objective, which prices a value once per cut
/// it crosses, so values that skip blocks cost more here than in `measure`. O(nodes * blocks * slack), slack = 1 - W /
/// (k * work).
std::optional<std::vector<uint32_t>> cut_order(const LevelGraph& graph, std::span<const uint32_t> order,
                                               const IntervalLimits& limits);

/// Returns the cost of the values live before each place 0 … n of the order.
std::vector<double> live_costs(const LevelGraph& graph, std::span<const uint32_t> order);

}  // namespace rannc::partition
