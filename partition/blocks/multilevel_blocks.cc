// Multilevel acyclic partitioning over ranks, in cycles.
//
//   1 coarsen by rank clustering, another order on every level, until about kNodesPerBlock * k nodes are left
//   2 cut several orders of the coarsest graph by interval DP, refine each, keep the cheapest
//   3 uncoarsen: cut again where the finer level can be balanced better, refine by value gains
//   4 as long as it pays and the graph is small enough: coarsen again inside the blocks, and go on from 3
// O(pins log nodes) a cycle while levels shrink geometrically. Not optimal: a heuristic throughout.
#include "partition/blocks/multilevel_blocks.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <thread>

#include "partition/blocks/interval_cut.h"
#include "partition/blocks/orders.h"
#include "partition/blocks/rank_clustering.h"
#include "partition/blocks/rannc_blocks.h"
#include "partition/blocks/recursive_bisection.h"
#include "partition/blocks/refine.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kNodesPerBlock = 50;
constexpr uint32_t kLeastNodes = 3'000;
constexpr uint32_t kManyNodes = 300'000;    // levels beyond it get the cheaper steps only
constexpr double kGrowth = 4;               // a cluster of one level holds at most so much mean work
constexpr size_t kPinsForCycles = 600'000;  // pins worked on in all cycles after the first together

constexpr OrderKind kLevelOrders[] = {OrderKind::kGiven, OrderKind::kDepthFirstBack, OrderKind::kBreadthFirst,
                                      OrderKind::kDepthFirst};

class Search {
 public:
  Search(const BlockOptions& options, LevelGraph graph, std::span<const uint32_t> tasks)
      : options_(options), report_(options.recorder, tasks) {
    hierarchy_.levels.push_back(std::move(graph));
    for (double work : hierarchy_.levels.front().work) total_ += work;
  }

  /// Block of every node of level 0; empty where no order can be cut within the limits.
  std::vector<uint32_t> run() {
    coarsen({});
    std::vector<uint32_t> best = cut_coarsest();
    if (best.empty()) return best;
    best = uncoarsen(std::move(best));
    if (!options_.refine) return best;
    const LevelGraph& finest = hierarchy_.levels.front();
    double best_cost = BlockState(finest, best, options_.blocks).crossing_cost();
    const size_t cycles = std::min<size_t>(kPinsForCycles / (finest.pins.items.size() + 1), 3);
    for (cycle_ = 1; cycle_ <= cycles; ++cycle_) {
      hierarchy_.levels.resize(1);
      hierarchy_.parent.clear();
      std::vector<uint32_t> blocks = uncoarsen(coarsen(best));
      const double cost = BlockState(hierarchy_.levels.front(), blocks, options_.blocks).crossing_cost();
      if (cost < best_cost) {
        best_cost = cost;
        best = std::move(blocks);
      }
    }
    return best;
  }

 private:
  /// Builds the hierarchy; returns `block_of` (of level 0, may be empty) on its coarsest level.
  std::vector<uint32_t> coarsen(std::vector<uint32_t> block_of) {
    const uint32_t target = std::max(kLeastNodes, kNodesPerBlock * options_.blocks);
    for (uint32_t failures = 0, turn = cycle_; failures < 2 && hierarchy_.levels.back().nodes() > target; ++turn) {
      const LevelGraph& graph = hierarchy_.levels.back();
      const size_t level = hierarchy_.levels.size() - 1;
      std::function<void(const std::vector<uint32_t>&)> moved;
      if (report_.active()) {
        moved = [&](const std::vector<uint32_t>& rank) { report_.report(BlockStep::kMerge, hierarchy_, level, rank); };
      }
      const ClusterLimits limits{std::min(total_ / (8.0 * options_.blocks), kGrowth * total_ / graph.nodes()),
                                 options_.memory_limit_bytes};
      std::vector<uint32_t> order = order_nodes(graph, kLevelOrders[turn % std::size(kLevelOrders)]);
      if (!block_of.empty()) order = sorted_by_block(order, block_of);
      uint32_t groups = 0;
      std::vector<uint32_t> group_of = cluster_by_rank(graph, order, block_of, limits, target, groups, moved);
      if (groups > graph.nodes() - graph.nodes() / 16) {
        ++failures;
        continue;
      }
      failures = 0;
      if (!block_of.empty()) {
        std::vector<uint32_t> coarse_blocks(groups);
        for (uint32_t v = 0; v < graph.nodes(); ++v) coarse_blocks[group_of[v]] = block_of[v];
        block_of = std::move(coarse_blocks);
      }
      LevelGraph coarse = contract(graph, group_of, groups);
      hierarchy_.levels.push_back(std::move(coarse));
      hierarchy_.parent.push_back(std::move(group_of));
    }
    return block_of;
  }

  /// Stable: the order inside a block stays.
  std::vector<uint32_t> sorted_by_block(const std::vector<uint32_t>& order, const std::vector<uint32_t>& block_of) {
    std::vector<uint32_t> start(options_.blocks + 1, 0), sorted(order.size());
    for (uint32_t b : block_of) ++start[b + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    for (uint32_t v : order) sorted[start[block_of[v]]++] = v;
    return sorted;
  }

  double limit(const LevelGraph& graph) const { return work_limit(graph, options_.blocks, options_.imbalance); }

  void improve(size_t level, BlockState& state, uint32_t passes) {
    const LevelGraph& graph = hierarchy_.levels[level];
    std::function<void()> moved;
    if (report_.active()) moved = [&] { report_.report(BlockStep::kMove, hierarchy_, level, state.block_of()); };
    refine(graph, state, {limit(graph), options_.memory_limit_bytes, passes}, moved);
  }

  struct Candidate {
    std::vector<uint32_t> block_of;  // empty: none
    double cost = std::numeric_limits<double>::infinity();
  };

  /// The `index`-th way to cut the coarsest graph, refined: one per order, then recursive bisection.
  Candidate candidate(size_t index) {
    const LevelGraph& graph = hierarchy_.levels.back();
    const double work = limit(graph);
    std::vector<uint32_t> block_of;
    if (index < std::size(kAllOrders)) {
      auto cut =
          cut_order(graph, order_nodes(graph, kAllOrders[index]), {options_.blocks, work, options_.memory_limit_bytes});
      if (cut) block_of = *std::move(cut);
    } else {
      block_of = bisect_recursively(graph, options_.blocks, work, options_.memory_limit_bytes);
    }
    if (block_of.empty()) return {};
    BlockState state(graph, std::move(block_of), options_.blocks);
    if (options_.refine) improve(hierarchy_.levels.size() - 1, state, 4);
    const double cost = state.crossing_cost();
    return {std::move(state).take(), cost};
  }

  std::vector<uint32_t> cut_coarsest() {
    std::vector<Candidate> candidates(std::size(kAllOrders) + 1);
    std::atomic<size_t> next = 0;
    auto work = [&] {
      for (size_t i = next++; i < candidates.size(); i = next++) candidates[i] = candidate(i);
    };
    std::vector<std::jthread> helpers;
    // A recorder need not be thread-safe.
    for (uint32_t t = 1; t < options_.threads && !report_.active(); ++t) helpers.emplace_back(work);
    work();
    helpers.clear();
    // The first of the cheapest, whichever thread made it.
    auto best = std::min_element(candidates.begin(), candidates.end(),
                                 [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
    return std::move(best->block_of);
  }

  /// Cuts the order (block, id) again when some block is beyond this level's limit.
  std::vector<uint32_t> rebalance(const LevelGraph& graph, std::vector<uint32_t> block_of) {
    std::vector<double> work(options_.blocks, 0);
    for (uint32_t v = 0; v < graph.nodes(); ++v) work[block_of[v]] += graph.work[v];
    if (*std::max_element(work.begin(), work.end()) <= limit(graph)) return block_of;
    const std::vector<uint32_t> order = sorted_by_block(order_nodes(graph, OrderKind::kGiven), block_of);
    auto cut = cut_order(graph, order, {options_.blocks, limit(graph), options_.memory_limit_bytes});
    return cut ? *std::move(cut) : block_of;
  }

  /// Moves the cuts of the order (block, place in another order) where that is cheaper.
  std::vector<uint32_t> cut_again(const LevelGraph& graph, std::vector<uint32_t> block_of) {
    double cost = BlockState(graph, block_of, options_.blocks).crossing_cost();
    constexpr OrderKind kinds[] = {OrderKind::kGiven, OrderKind::kBreadthFirst, OrderKind::kLeastLive};
    for (OrderKind kind : std::span(kinds).first(cycle_ == 0 && graph.nodes() <= kManyNodes ? 3 : 2)) {
      const std::vector<uint32_t> order = sorted_by_block(order_nodes(graph, kind), block_of);
      auto cut = cut_order(graph, order, {options_.blocks, limit(graph), options_.memory_limit_bytes});
      if (!cut) continue;
      const double other = BlockState(graph, *cut, options_.blocks).crossing_cost();
      if (other >= cost) continue;
      cost = other;
      block_of = *std::move(cut);
    }
    return block_of;
  }

  std::vector<uint32_t> uncoarsen(std::vector<uint32_t> block_of) {
    for (size_t level = hierarchy_.levels.size(); level-- > 0;) {
      const LevelGraph& graph = hierarchy_.levels[level];
      if (level < hierarchy_.parent.size()) {
        std::vector<uint32_t> finer(graph.nodes());
        for (uint32_t v = 0; v < graph.nodes(); ++v) finer[v] = block_of[hierarchy_.parent[level][v]];
        block_of = rebalance(graph, std::move(finer));
      }
      if (options_.refine && (cycle_ == 0 || level == 0)) block_of = cut_again(graph, std::move(block_of));
      BlockState state(graph, std::move(block_of), options_.blocks);
      if (options_.refine) improve(level, state, graph.nodes() <= kManyNodes ? 3 : 2);
      block_of = std::move(state).take();
    }
    return block_of;
  }

  const BlockOptions& options_;
  StepReporter report_;
  Hierarchy hierarchy_;
  double total_ = 0;
  uint32_t cycle_ = 0;
};

}  // namespace

BlockPartition MultilevelBlocks::search(const Dag& dag, std::span<const uint32_t> tasks,
                                        const BlockOptions& options) const {
  const std::vector<uint32_t> block_of = Search(options, level_zero(dag, tasks, options.in_flight), tasks).run();
  if (block_of.empty()) return {};
  BlockPartition result{options.blocks, std::vector<uint32_t>(dag.tasks())};
  for (uint32_t i = 0; i < tasks.size(); ++i) result.block_of[tasks[i]] = block_of[i];
  return result;
}

}  // namespace rannc::partition
