// Implements RaNNC, section III.B (Tanaka et al., IPDPS 2021): multilevel blocks in near-linear time.
//
// Complexity: O(n log n) per level for the order of picks, O(pins) tests. The levels shrink geometrically.
// Not optimal: the search is greedy, and a convex pair is skipped if a bounded search cannot prove that merging it
// keeps the quotient acyclic.
#include "partition/blocks/rannc_blocks.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "partition/blocks/block_state.h"
#include "partition/blocks/orders.h"
#include "partition/blocks/pair_matching.h"

namespace rannc::partition {
namespace {

constexpr size_t kMaxTrials = 16;

/// Free neighbours of `node` that fit with it, lightest first, ties by id.
void merge_candidates(const LevelGraph& graph, const PairMatching& matching, uint32_t node, uint64_t memory_limit,
                      std::vector<uint32_t>& candidates) {
  candidates.clear();
  auto consider = [&](uint32_t other) {
    if (!matching.free(other)) return;
    const uint64_t sum = graph.memory[node] + graph.memory[other];
    if (sum >= graph.memory[node] && sum <= memory_limit) candidates.push_back(other);
  };
  for (uint32_t e : graph.inputs.row(node)) consider(graph.producer(e));
  for (uint32_t e : graph.outputs(node)) {
    for (uint32_t reader : graph.readers(e)) consider(reader);
  }
  auto lighter = [&](uint32_t a, uint32_t b) {
    return graph.work[a] != graph.work[b] ? graph.work[a] < graph.work[b] : a < b;
  };
  std::sort(candidates.begin(), candidates.end(), lighter);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
}

/// Coarsens one level. Returns the group of each node, numbered topologically, and the number of groups.
std::pair<std::vector<uint32_t>, uint32_t> merge_level(const Hierarchy& hierarchy, uint32_t k, uint64_t memory_limit,
                                                       const StepReporter& report) {
  const LevelGraph& graph = hierarchy.levels.back();
  PairMatching matching(graph);
  std::vector<uint32_t> candidates;
  for (uint32_t node : by_ascending_work(graph)) {
    if (matching.groups() == k) break;
    if (!matching.free(node)) continue;
    merge_candidates(graph, matching, node, memory_limit, candidates);
    if (candidates.size() > kMaxTrials) candidates.resize(kMaxTrials);
    for (uint32_t other : candidates) {
      // Level ids are a topological order, so the lower id is the producer's side.
      if (!matching.try_merge(std::min(node, other), std::max(node, other))) continue;
      if (report.active()) {
        report.report(BlockStep::kMerge, hierarchy, hierarchy.levels.size() - 1, matching.group_of());
      }
      break;
    }
  }
  return {matching.group_of(), matching.groups()};
}

/// Whether moving `node` to `target` is allowed and better.
bool improves(const LevelGraph& graph, const BlockState& state, uint32_t node, uint32_t target, uint64_t memory_limit,
              double& gain) {
  const uint32_t source = state.block(node);
  if (target == source || state.size(source) == 1) return false;
  if (graph.memory[node] > memory_limit || state.memory(target) > memory_limit - graph.memory[node]) return false;
  gain = state.gain(node, target);
  const double tolerance = 1e-12 * state.work(source);
  if (gain > tolerance) return true;
  return gain >= 0 && state.work(target) + graph.work[node] < state.work(source);
}

/// Moves the nodes of a level in the order of `picks`.
void move_nodes(const Hierarchy& hierarchy, size_t level, std::span<const uint32_t> picks, BlockState& state,
                uint64_t memory_limit, const StepReporter& report) {
  const LevelGraph& graph = hierarchy.levels[level];
  for (uint32_t node : picks) {
    const RankWindow window = state.window(node);
    if (window.low == window.high) continue;
    double down = 0, up = 0;
    const bool can_down =
        !graph.inputs.row(node).empty() && improves(graph, state, node, window.low, memory_limit, down);
    const bool can_up = !graph.outputs(node).empty() && improves(graph, state, node, window.high, memory_limit, up);
    if (!can_down && !can_up) continue;
    state.move(node, can_down && (!can_up || down >= up) ? window.low : window.high);
    if (report.active()) report.report(BlockStep::kMove, hierarchy, level, state.block_of());
  }
}

}  // namespace

void StepReporter::report(BlockStep step, const Hierarchy& hierarchy, size_t level,
                          std::vector<uint32_t> group_of) const {
  if (!active()) return;
  for (size_t l = level; l-- > 0;) {
    std::vector<uint32_t> finer(hierarchy.levels[l].nodes());
    for (uint32_t v = 0; v < finer.size(); ++v) finer[v] = group_of[hierarchy.parent[l][v]];
    group_of = std::move(finer);
  }
  const uint32_t groups = compress_ranks(group_of, 1 + *std::max_element(group_of.begin(), group_of.end()));
  std::vector<uint32_t> of_task(order_.size());
  for (uint32_t i = 0; i < order_.size(); ++i) of_task[order_[i]] = group_of[i];
  recorder_->step(step, of_task, groups);
}

Hierarchy coarsen(LevelGraph graph, uint32_t k, uint64_t memory_limit, const StepReporter& report) {
  Hierarchy hierarchy;
  hierarchy.levels.push_back(std::move(graph));
  while (hierarchy.levels.back().nodes() > k) {
    const uint32_t before = hierarchy.levels.back().nodes();
    auto [group_of, groups] = merge_level(hierarchy, k, memory_limit, report);
    if (groups == before) break;
    hierarchy.levels.push_back(contract(hierarchy.levels.back(), group_of, groups));
    hierarchy.parent.push_back(std::move(group_of));
    if (before - groups < before / 64) break;
  }
  return hierarchy;
}

std::vector<uint32_t> uncoarsen(const Hierarchy& hierarchy, std::vector<uint32_t> block_of, uint32_t blocks,
                                uint64_t memory_limit, const StepReporter& report) {
  for (size_t level = hierarchy.levels.size(); level-- > 0;) {
    if (level + 1 < hierarchy.levels.size()) {
      std::vector<uint32_t> finer(hierarchy.levels[level].nodes());
      for (uint32_t v = 0; v < finer.size(); ++v) finer[v] = block_of[hierarchy.parent[level][v]];
      block_of = std::move(finer);
    }
    // Sorted before the state takes its memory.
    const std::vector<uint32_t> picks = by_ascending_work(hierarchy.levels[level]);
    BlockState state(hierarchy.levels[level], std::move(block_of), blocks);
    move_nodes(hierarchy, level, picks, state, memory_limit, report);
    block_of = std::move(state).take();
  }
  return block_of;
}

uint32_t compact(const Hierarchy& hierarchy, std::vector<uint32_t>& block_of, uint32_t blocks, uint32_t k,
                 uint64_t memory_limit, const StepReporter& report) {
  const LevelGraph& graph = hierarchy.levels.front();
  std::vector<double> work(blocks, 0);
  std::vector<uint64_t> memory(blocks, 0);
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    work[block_of[v]] += graph.work[v];
    memory[block_of[v]] += graph.memory[v];
  }
  // A list of the blocks in order. A merged pair is represented by its left member.
  std::vector<uint32_t> left(blocks), right(blocks), into(blocks);
  std::iota(into.begin(), into.end(), 0);
  for (uint32_t b = 0; b < blocks; ++b) {
    left[b] = b == 0 ? UINT32_MAX : b - 1;
    right[b] = b + 1 == blocks ? UINT32_MAX : b + 1;
  }
  using Entry = std::pair<double, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> picks;
  for (uint32_t b = 0; b < blocks; ++b) picks.emplace(work[b], b);
  auto fits = [&](uint32_t a, uint32_t b) {
    return b != UINT32_MAX && memory[a] + memory[b] >= memory[a] && memory[a] + memory[b] <= memory_limit;
  };
  uint32_t count = blocks;
  while (count > k && !picks.empty()) {
    const auto [time, v] = picks.top();
    picks.pop();
    if (into[v] != v || work[v] != time) continue;
    uint32_t other = UINT32_MAX;
    if (fits(v, left[v])) other = left[v];
    if (fits(v, right[v]) && (other == UINT32_MAX || work[right[v]] < work[other])) other = right[v];
    if (other == UINT32_MAX) continue;  // neighbours only grow, so v never fits again
    const uint32_t keep = other == left[v] ? other : v, gone = keep == v ? other : v;
    into[gone] = keep;
    work[keep] += work[gone];
    memory[keep] += memory[gone];
    right[keep] = right[gone];
    if (right[keep] != UINT32_MAX) left[right[keep]] = keep;
    picks.emplace(work[keep], keep);
    --count;
    if (report.active()) {
      std::vector<uint32_t> now(block_of);
      for (uint32_t& b : now) {
        while (into[b] != b) b = into[b];
      }
      report.report(BlockStep::kCompact, hierarchy, 0, std::move(now));
    }
  }
  for (uint32_t b = 0; b < blocks; ++b)
    into[b] = into[into[b]];  // the left member has the lower id: one pass is enough
  for (uint32_t& b : block_of) b = into[b];
  return compress_ranks(block_of, blocks);
}

namespace {

/// The blocks of the coarsest level, per node of level 0.
std::vector<uint32_t> groups_of_nodes(const Hierarchy& hierarchy) {
  std::vector<uint32_t> group_of(hierarchy.levels.back().nodes());
  std::iota(group_of.begin(), group_of.end(), 0);
  for (size_t level = hierarchy.parent.size(); level-- > 0;) {
    std::vector<uint32_t> finer(hierarchy.levels[level].nodes());
    for (uint32_t v = 0; v < finer.size(); ++v) finer[v] = group_of[hierarchy.parent[level][v]];
    group_of = std::move(finer);
  }
  return group_of;
}

double crossing_cost(const Hierarchy& hierarchy, const BlockPartition& blocks) {
  return BlockState(hierarchy.levels.front(), blocks.block_of, blocks.count).crossing_cost();
}

}  // namespace

BlockPartition RanncBlocks::search(const Dag& dag, std::span<const uint32_t> order, const BlockOptions& options) const {
  const StepReporter report(options.recorder, order), silent(nullptr, order);
  const uint64_t memory = options.memory_limit_bytes;
  const Hierarchy hierarchy = coarsen(level_zero(dag, order, options.in_flight), options.blocks, memory, report);
  const uint32_t groups = hierarchy.levels.back().nodes();
  const auto compacted = [&](std::vector<uint32_t> block_of, const StepReporter& to) {
    BlockPartition blocks{0, std::move(block_of)};
    blocks.count = compact(hierarchy, blocks.block_of, groups, options.blocks, memory, to);
    return blocks;
  };
  BlockPartition blocks;
  if (uncoarsening_ && options.refine) {
    std::vector<uint32_t> coarse(groups);
    std::iota(coarse.begin(), coarse.end(), 0);
    blocks = compacted(uncoarsen(hierarchy, std::move(coarse), groups, memory, report), report);
    // Compaction merges by work, so it may lose what the moves gained, or fail where it would not without them.
    if (groups > options.blocks) {
      BlockPartition unmoved = compacted(groups_of_nodes(hierarchy), silent);
      if (unmoved.count < blocks.count ||
          (unmoved.count == blocks.count && crossing_cost(hierarchy, unmoved) < crossing_cost(hierarchy, blocks)))
        blocks = std::move(unmoved);
    }
  } else {
    blocks = compacted(groups_of_nodes(hierarchy), report);
  }
  BlockPartition result{blocks.count, std::vector<uint32_t>(dag.tasks())};
  for (uint32_t i = 0; i < order.size(); ++i) result.block_of[order[i]] = blocks.block_of[i];
  return result;
}

}  // namespace rannc::partition
