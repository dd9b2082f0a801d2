// Cuts several fixed topological orders and keeps the cheapest.
//
// O(orders * nodes * (log nodes + blocks * imbalance)). Exact per order for live cost; the orders are a heuristic.
#include "partition/blocks/order_dp.h"

#include <limits>

#include "partition/blocks/block_state.h"
#include "partition/blocks/interval_cut.h"
#include "partition/blocks/orders.h"

namespace rannc::partition {

BlockPartition OrderDpBlocks::search(const Dag& dag, std::span<const uint32_t> tasks,
                                     const BlockOptions& options) const {
  const LevelGraph graph = level_zero(dag, tasks, options.in_flight);
  const IntervalLimits limits{options.blocks, work_limit(graph, options.blocks, options.imbalance),
                              options.memory_limit_bytes};
  BlockPartition best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (OrderKind kind : kAllOrders) {
    auto block_of = cut_order(graph, order_nodes(graph, kind), limits);
    if (!block_of) continue;
    const double cost = crossing_cost(graph, *block_of, options.blocks);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best.count = options.blocks;
    best.block_of.resize(dag.tasks());
    for (uint32_t i = 0; i < tasks.size(); ++i) best.block_of[tasks[i]] = (*block_of)[i];
  }
  return best;
}

}  // namespace rannc::partition
