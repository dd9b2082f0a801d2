// Multilevel acyclic partitioning over ranks.
//
//   1 coarsen by rank clustering, another order on every level, until about kNodesPerBlock * k nodes are left
//   2 cut several orders of the coarsest graph by interval DP, refine each, keep the cheapest
//   3 uncoarsen: cut again where the finer level can be balanced better, refine by value gains
// O(pins log nodes) in total while levels shrink geometrically. Not optimal: a heuristic throughout.
#include "partition/blocks/multilevel_blocks.h"

#include <algorithm>
#include <limits>

#include "partition/blocks/interval_cut.h"
#include "partition/blocks/orders.h"
#include "partition/blocks/rank_clustering.h"
#include "partition/blocks/rannc_blocks.h"
#include "partition/blocks/refine.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kNodesPerBlock = 50;

struct Search {
  const BlockOptions& options;
  Hierarchy hierarchy;
  StepReporter report;

  void coarsen() {
    const uint32_t k = options.blocks;
    double total = 0;
    for (double work : hierarchy.levels.front().work) total += work;
    const ClusterLimits limits{total / (8.0 * k), options.memory_limit_bytes};
    constexpr OrderKind kinds[] = {OrderKind::kGiven, OrderKind::kDepthFirstBack, OrderKind::kBreadthFirst,
                                   OrderKind::kDepthFirst};
    for (uint32_t failures = 0, turn = 0; failures < 2; ++turn) {
      const LevelGraph& graph = hierarchy.levels.back();
      if (graph.nodes() <= kNodesPerBlock * k) break;
      const size_t level = hierarchy.levels.size() - 1;
      std::function<void(const std::vector<uint32_t>&)> moved;
      if (report.active()) {
        moved = [&](const std::vector<uint32_t>& rank) { report.report(BlockStep::kMerge, hierarchy, level, rank); };
      }
      uint32_t groups = 0;
      std::vector<uint32_t> group_of = cluster_by_rank(graph, order_nodes(graph, kinds[turn % std::size(kinds)]),
                                                       limits, kNodesPerBlock * k, groups, moved);
      if (groups > graph.nodes() - graph.nodes() / 16) {
        ++failures;
        continue;
      }
      failures = 0;
      LevelGraph coarse = contract(graph, group_of, groups);
      hierarchy.levels.push_back(std::move(coarse));
      hierarchy.parent.push_back(std::move(group_of));
    }
  }

  double limit(const LevelGraph& graph) const { return work_limit(graph, options.blocks, options.imbalance); }

  void improve(size_t level, BlockState& state, uint32_t passes) {
    const LevelGraph& graph = hierarchy.levels[level];
    std::function<void()> moved;
    if (report.active()) moved = [&] { report.report(BlockStep::kMove, hierarchy, level, state.block_of()); };
    refine(graph, state, {limit(graph), options.memory_limit_bytes, passes}, moved);
  }

  std::vector<uint32_t> cut_coarsest() {
    const LevelGraph& graph = hierarchy.levels.back();
    const IntervalLimits limits{options.blocks, limit(graph), options.memory_limit_bytes};
    std::vector<uint32_t> best;
    double best_cost = std::numeric_limits<double>::infinity();
    for (OrderKind kind : kAllOrders) {
      auto block_of = cut_order(graph, order_nodes(graph, kind), limits);
      if (!block_of) continue;
      BlockState state(graph, *std::move(block_of), options.blocks);
      if (options.refine) improve(hierarchy.levels.size() - 1, state, 8);
      const double cost = state.crossing_cost();
      if (cost >= best_cost) continue;
      best_cost = cost;
      best = std::move(state).take();
    }
    return best;
  }

  /// Cuts the order (block, id) again when some block is beyond this level's limit.
  std::vector<uint32_t> rebalance(const LevelGraph& graph, std::vector<uint32_t> block_of) {
    std::vector<double> work(options.blocks, 0);
    for (uint32_t v = 0; v < graph.nodes(); ++v) work[block_of[v]] += graph.work[v];
    if (*std::max_element(work.begin(), work.end()) <= limit(graph)) return block_of;
    std::vector<uint32_t> start(options.blocks + 1, 0), order(graph.nodes());
    for (uint32_t b : block_of) ++start[b + 1];
    for (uint32_t b = 0; b < options.blocks; ++b) start[b + 1] += start[b];
    for (uint32_t v = 0; v < graph.nodes(); ++v) order[start[block_of[v]]++] = v;
    auto cut = cut_order(graph, order, {options.blocks, limit(graph), options.memory_limit_bytes});
    return cut ? *std::move(cut) : block_of;
  }

  std::vector<uint32_t> uncoarsen(std::vector<uint32_t> block_of) {
    for (size_t level = hierarchy.parent.size(); level-- > 0;) {
      const LevelGraph& graph = hierarchy.levels[level];
      std::vector<uint32_t> finer(graph.nodes());
      for (uint32_t v = 0; v < graph.nodes(); ++v) finer[v] = block_of[hierarchy.parent[level][v]];
      BlockState state(graph, rebalance(graph, std::move(finer)), options.blocks);
      if (options.refine) improve(level, state, 3);
      block_of = std::move(state).take();
    }
    return block_of;
  }
};

}  // namespace

BlockPartition MultilevelBlocks::search(const Dag& dag, const BlockOptions& options) const {
  const std::vector<uint32_t> order = *topological_order(dag);
  Search search{options, {}, StepReporter(options.recorder, order)};
  search.hierarchy.levels.push_back(level_zero(dag, order, options.in_flight));
  search.coarsen();
  std::vector<uint32_t> block_of = search.cut_coarsest();
  if (block_of.empty()) return {};
  block_of = search.uncoarsen(std::move(block_of));
  BlockPartition result{options.blocks, std::vector<uint32_t>(dag.tasks())};
  for (uint32_t i = 0; i < order.size(); ++i) result.block_of[order[i]] = block_of[i];
  return result;
}

}  // namespace rannc::partition
