// Implements multilevel acyclic partitioning over ranks, in cycles.
//
//   1 coarsen by rank clustering, with another order on every level, until about kNodesPerBlock * k nodes are left; no
//     cluster is heavier than the slack of a block
//   2 cut several orders of the coarsest graph by interval DP, and bisect it; refine the cheapest, keep the best;
//     repeat this on still coarser graphs ("dive") while that is promising
//   3 uncoarsen: cut again if the finer level can be balanced better, refine by value gains, finally by flow
//   4 while it improves enough: coarsen again inside the blocks, and continue from 3
//   5 while steps are left: start again from 1 with other orders
// O(pins log nodes) a cycle if levels shrink geometrically. A heuristic, not optimal.
#include "partition/blocks/multilevel_blocks.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <numeric>
#include <thread>

#include "partition/blocks/interval_cut.h"
#include "partition/blocks/orders.h"
#include "partition/blocks/pair_flow.h"
#include "partition/blocks/rank_clustering.h"
#include "partition/blocks/rannc_blocks.h"
#include "partition/blocks/recursive_bisection.h"
#include "partition/blocks/refine.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kNodesPerBlock = 50;
constexpr uint32_t kLeastNodes = 3'000;
constexpr uint32_t kDives = 4;
constexpr uint32_t kAttempts = 5;
constexpr uint64_t kFixedSteps = 3'800'000;
constexpr uint64_t kStepsPerNode = 155;
constexpr uint32_t kDeepNodesPerBlock = 16;
constexpr uint32_t kLeastDeepNodes = 300;
constexpr size_t kPolished = 2;           // number of candidates that are refined, the cheapest first
constexpr double kClose = 1.1;            // refined candidates cost at most this multiple of the cheapest
constexpr double kHopeless = 1.02;        // diving ends at this multiple of the best cost
constexpr double kWorthwhile = 0.998;     // a cycle that leaves more than this part of the cost is the last
constexpr uint32_t kManyNodes = 300'000;  // levels beyond this size only get the cheaper steps
constexpr double kGrowth = 4;             // a cluster of one level has at most this multiple of the mean work
constexpr uint32_t kCycles = 3;
constexpr uint32_t kPasses = 2;       // of refinement on a level
constexpr double kFlowSlacks = 8;     // reach of a flow in slacks of a block
constexpr double kFlowNodes = 1'000;  // and at most this many nodes of level 0

constexpr OrderKind kLevelOrders[] = {OrderKind::kGiven, OrderKind::kDepthFirstBack, OrderKind::kBreadthFirst,
                                      OrderKind::kDepthFirst};

class Search {
 public:
  Search(const BlockOptions& options, LevelGraph graph, std::span<const uint32_t> tasks)
      : options_(options), report_(options.recorder, tasks) {
    hierarchy_.levels.push_back(std::move(graph));
    for (double work : hierarchy_.levels.front().work) total_ += work;
    limit_ = work_limit(hierarchy_.levels.front(), options_.blocks, options_.imbalance);
    budget_ = kFixedSteps + kStepsPerNode * std::min(hierarchy_.levels.front().nodes(), kManyNodes);
  }

  /// Returns the block of every node of level 0; empty if no order can be cut within the limits.
  std::vector<uint32_t> run() {
    std::vector<uint32_t> best = attempt();
    if (best.empty() || !options_.refine) return best;
    double best_cost = cycles(best);
    const uint64_t first = spent_;
    for (attempt_ = 1; attempt_ < kAttempts && spent_ + first <= budget_; ++attempt_) {
      std::vector<uint32_t> blocks = attempt();
      if (cost_of(hierarchy_.levels.front(), blocks) > kHopeless * best_cost) continue;
      const double cost = cycles(blocks);
      if (cost >= best_cost) continue;
      best_cost = cost;
      best = std::move(blocks);
    }
    return best;
  }

 private:
  /// Steps 1 to 3 from the start.
  std::vector<uint32_t> attempt() {
    truncate(0);
    coarsen({}, kLeastNodes, kNodesPerBlock);
    std::vector<uint32_t> blocks = cut_coarsest();
    if (options_.refine) blocks = dive(std::move(blocks));
    return blocks.empty() ? blocks : uncoarsen(std::move(blocks), 0);
  }

  /// Step 4; returns the cost.
  double cycles(std::vector<uint32_t>& best) {
    double best_cost = cost_of(hierarchy_.levels.front(), best);
    const uint32_t least = hierarchy_.levels.front().nodes() <= kManyNodes ? 1 : 0;
    for (cycle_ = 1; cycle_ <= kCycles && (cycle_ <= least || spent_ < budget_); ++cycle_) {
      truncate(0);
      std::vector<uint32_t> blocks = uncoarsen(coarsen(best, kLeastNodes, kNodesPerBlock), 0);
      const double cost = cost_of(hierarchy_.levels.front(), blocks);
      const bool last = cost > kWorthwhile * best_cost;
      if (cost < best_cost) {
        best_cost = cost;
        best = std::move(blocks);
      }
      if (last) break;
    }
    cycle_ = 0;
    return best_cost;
  }

  size_t pins(size_t level) const { return hierarchy_.levels[level].pins.items.size(); }

  /// Returns to level `last`.
  void truncate(size_t last) {
    hierarchy_.levels.resize(last + 1);
    hierarchy_.parent.resize(last);
  }

  double cost_of(const LevelGraph& graph, const std::vector<uint32_t>& block_of) const {
    return block_of.empty() ? std::numeric_limits<double>::infinity() : crossing_cost(graph, block_of, options_.blocks);
  }

  /// Solves the coarsest level several times by coarsening it further, each time differently. Returns the cheapest
  /// result, including `best`. Restores the hierarchy.
  std::vector<uint32_t> dive(std::vector<uint32_t> best) {
    const size_t base = hierarchy_.levels.size() - 1;
    double best_cost = cost_of(hierarchy_.levels[base], best);
    bool hopeless = false;
    for (dive_ = 1; dive_ <= kDives && !hopeless && spent_ < budget_ / 4; ++dive_) {
      coarsen({}, kLeastDeepNodes, kDeepNodesPerBlock);
      if (hierarchy_.levels.size() == base + 1) break;
      std::vector<uint32_t> blocks = cut_coarsest();
      if (!blocks.empty()) blocks = uncoarsen(std::move(blocks), base);
      truncate(base);
      hopeless = !keep_cheaper(best, best_cost, std::move(blocks));
    }
    dive_ = 0;
    return best;
  }

  /// Replaces `best` (of the coarsest level) if `other` is cheaper. Returns false if `other` is hopelessly more
  /// expensive.
  bool keep_cheaper(std::vector<uint32_t>& best, double& best_cost, std::vector<uint32_t> other) const {
    const double cost = cost_of(hierarchy_.levels.back(), other);
    if (cost < best_cost) {
      best_cost = cost;
      best = std::move(other);
    }
    return cost <= best_cost * kHopeless;
  }

  /// Adds levels. Returns `block_of` (of the previous coarsest level, may be empty) on the new coarsest level.
  std::vector<uint32_t> coarsen(std::vector<uint32_t> block_of, uint32_t least_nodes, uint32_t nodes_per_block) {
    uint32_t target = std::max(least_nodes, nodes_per_block * options_.blocks);
    const uint32_t now = hierarchy_.levels.back().nodes();
    if (hierarchy_.levels.size() == 1) target = std::min(target, now - now / 3);
    for (uint32_t failures = 0, turn = attempt_ + cycle_ + dive_;
         failures < 2 && hierarchy_.levels.back().nodes() > target; ++turn) {
      const LevelGraph& graph = hierarchy_.levels.back();
      const size_t level = hierarchy_.levels.size() - 1;
      std::function<void(const std::vector<uint32_t>&)> moved;
      if (report_.active()) {
        moved = [&](const std::vector<uint32_t>& rank) { report_.report(BlockStep::kMerge, hierarchy_, level, rank); };
      }
      const double mean = total_ / options_.blocks;
      const double heaviest = dive_ > 0 ? mean / 8 : std::min(mean / 8, limit_ - mean);
      const ClusterLimits limits{std::min(heaviest, kGrowth * total_ / graph.nodes()), options_.memory_limit_bytes};
      std::vector<uint32_t> order = order_nodes(graph, kLevelOrders[turn % std::size(kLevelOrders)]);
      if (!block_of.empty()) order = sorted_by_block(order, block_of);
      spent_ += 8 * pins(level);
      uint32_t groups = 0;
      std::vector<uint32_t> group_of = cluster_by_rank(graph, order, block_of, limits, target, groups, moved);
      if (groups + std::max(1u, graph.nodes() / 16) > graph.nodes()) {
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

  /// Stable: keeps the order inside a block.
  std::vector<uint32_t> sorted_by_block(const std::vector<uint32_t>& order, const std::vector<uint32_t>& block_of) {
    std::vector<uint32_t> start(options_.blocks + 1, 0), sorted(order.size());
    for (uint32_t b : block_of) ++start[b + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    for (uint32_t v : order) sorted[start[block_of[v]]++] = v;
    return sorted;
  }

  /// Cuts `order` within the balance of level 0, or within the limit that this level's heaviest node makes possible.
  std::optional<std::vector<uint32_t>> cut(const LevelGraph& graph, std::span<const uint32_t> order) {
    const double looser = work_limit(graph, options_.blocks, options_.imbalance);
    for (double work : {limit_, looser}) {
      const double slack = std::max(0.0, 1 - total_ / (options_.blocks * work + 1e-300));
      spent_ += 4 * graph.pins.items.size() + static_cast<uint64_t>(slack * graph.nodes() * options_.blocks);
      auto block_of = cut_order(graph, order, {options_.blocks, work, options_.memory_limit_bytes});
      if (block_of || looser <= limit_) return block_of;
    }
    return std::nullopt;
  }

  double largest_work(const BlockState& state) const {
    double largest = 0;
    for (uint32_t b = 0; b < options_.blocks; ++b) largest = std::max(largest, state.work(b));
    return largest;
  }

  void improve(size_t level, BlockState& state, uint32_t passes) {
    const LevelGraph& graph = hierarchy_.levels[level];
    std::function<void()> moved;
    if (report_.active()) moved = [&] { report_.report(BlockStep::kMove, hierarchy_, level, state.block_of()); };
    const RefineLimits limits{std::max(limit_, largest_work(state)), options_.memory_limit_bytes, passes};
    spent_ += 5 * refine(graph, state, limits, moved).evaluations * pins(level) / graph.nodes();
  }

  bool flows_on(size_t level) const { return level == 0 && cycle_ == 0 && dive_ == 0; }

  void flow(size_t level, BlockState& state) {
    const LevelGraph& graph = hierarchy_.levels[level];
    std::function<void()> moved;
    if (report_.active()) moved = [&] { report_.report(BlockStep::kMove, hierarchy_, level, state.block_of()); };
    const double work = std::max(limit_, largest_work(state));
    const double reach = std::min(kFlowSlacks * (work - total_ / options_.blocks), kFlowNodes * total_ / graph.nodes());
    const FlowLimits limits{work, options_.memory_limit_bytes, reach, budget_ / 5};
    spent_ += refine_by_flow(graph, state, limits, moved).evaluations;
  }

  struct Candidate {
    std::vector<uint32_t> block_of;  // empty: none
    double cost = std::numeric_limits<double>::infinity();
  };

  Candidate cut_of(OrderKind kind) {
    const LevelGraph& graph = hierarchy_.levels.back();
    Candidate out;
    if (auto cuts = cut(graph, order_nodes(graph, kind))) out.block_of = *std::move(cuts);
    out.cost = cost_of(graph, out.block_of);
    return out;
  }

  uint64_t bisection_steps() const { return 16 * pins(hierarchy_.levels.size() - 1) * std::bit_width(options_.blocks); }

  bool can_bisect() const { return bisection_steps() < budget_ / 2; }

  Candidate bisection() {
    const LevelGraph& graph = hierarchy_.levels.back();
    Candidate out;
    spent_ += bisection_steps();
    out.block_of = bisect_recursively(graph, options_.blocks, limit_);
    if (!out.block_of.empty()) out.block_of = rebalance(graph, std::move(out.block_of));
    out.cost = cost_of(graph, out.block_of);
    return out;
  }

  void polish(Candidate& candidate) {
    if (candidate.block_of.empty() || !options_.refine) return;
    BlockState state(hierarchy_.levels.back(), std::move(candidate.block_of), options_.blocks);
    improve(hierarchy_.levels.size() - 1, state, 4);
    candidate.cost = state.crossing_cost();
    candidate.block_of = std::move(state).take();
  }

  /// Calls f(0) … f(count-1), on several threads if requested. A recorder need not be thread-safe.
  void for_all(size_t count, const std::function<void(size_t)>& f) const {
    std::atomic<size_t> next = 0;
    auto work = [&] {
      for (size_t i = next++; i < count; i = next++) f(i);
    };
    std::vector<std::jthread> helpers;
    for (uint32_t t = 1; t < options_.threads && !report_.active(); ++t) helpers.emplace_back(work);
    work();
  }

  /// Returns blocks of the coarsest graph: the first of the cheapest, independent of threads. Orders are cut only on
  /// coarsened graphs; on level 0 that would be the rival `order-dp`.
  std::vector<uint32_t> cut_coarsest() {
    const bool orders = hierarchy_.levels.size() > 1;
    const bool bisects = !orders || can_bisect();
    const size_t cuts = orders ? std::size(kAllOrders) : 0;
    std::vector<Candidate> candidates(cuts + (bisects ? 1 : 0));
    auto cheaper = [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; };
    for_all(candidates.size(), [&](size_t i) { candidates[i] = i < cuts ? cut_of(kAllOrders[i]) : bisection(); });
    std::stable_sort(candidates.begin(), candidates.end(), cheaper);
    candidates.resize(std::min(candidates.size(), kPolished));
    if (candidates.back().cost > kClose * candidates.front().cost) candidates.resize(1);
    for_all(candidates.size(), [&](size_t i) { polish(candidates[i]); });
    return std::move(std::min_element(candidates.begin(), candidates.end(), cheaper)->block_of);
  }

  /// Cuts the order (block, id) again if some block exceeds this level's limit.
  std::vector<uint32_t> rebalance(const LevelGraph& graph, std::vector<uint32_t> block_of) {
    std::vector<double> work(options_.blocks, 0);
    for (uint32_t v = 0; v < graph.nodes(); ++v) work[block_of[v]] += graph.work[v];
    if (*std::max_element(work.begin(), work.end()) <= limit_) return block_of;
    auto cuts = cut(graph, sorted_by_block(order_nodes(graph, OrderKind::kGiven), block_of));
    return cuts ? *std::move(cuts) : block_of;
  }

  /// Moves the cuts of the order (block, place in another order) if that is cheaper.
  std::vector<uint32_t> cut_again(const LevelGraph& graph, std::vector<uint32_t> block_of) {
    double cost = crossing_cost(graph, block_of, options_.blocks);
    constexpr OrderKind kinds[] = {OrderKind::kGiven, OrderKind::kBreadthFirst, OrderKind::kLeastLive};
    const bool brief = cycle_ > 0 || graph.nodes() > kManyNodes;
    for (OrderKind kind : kinds) {
      const std::vector<uint32_t> order = sorted_by_block(order_nodes(graph, kind), block_of);
      auto cuts = cut(graph, order);
      const double other = cuts ? crossing_cost(graph, *cuts, options_.blocks) : cost;
      if (other >= cost && brief) break;
      if (other >= cost) continue;
      cost = other;
      block_of = *std::move(cuts);
    }
    return block_of;
  }

  /// Projects blocks of the coarsest level down to level `last`, refined on every level.
  std::vector<uint32_t> uncoarsen(std::vector<uint32_t> block_of, size_t last) {
    for (size_t level = hierarchy_.levels.size(); level-- > last;) {
      const LevelGraph& graph = hierarchy_.levels[level];
      if (level < hierarchy_.parent.size()) {
        std::vector<uint32_t> finer(graph.nodes());
        for (uint32_t v = 0; v < graph.nodes(); ++v) finer[v] = block_of[hierarchy_.parent[level][v]];
        block_of = rebalance(graph, std::move(finer));
      }
      if (options_.refine && ((cycle_ == 0 && dive_ == 0) || level == last))
        block_of = cut_again(graph, std::move(block_of));
      BlockState state(graph, std::move(block_of), options_.blocks);
      if (options_.refine) improve(level, state, kPasses);
      if (options_.refine && flows_on(level)) flow(level, state);
      block_of = std::move(state).take();
    }
    return block_of;
  }

  const BlockOptions& options_;
  StepReporter report_;
  Hierarchy hierarchy_;
  double total_ = 0;
  double limit_ = 0;     // of a block's work on level 0
  uint64_t budget_ = 0;  // steps after which no new work is started
  uint32_t attempt_ = 0;
  uint32_t cycle_ = 0;
  uint32_t dive_ = 0;
  std::atomic<uint64_t> spent_ = 0;  // steps, a machine-independent measure of time
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
