// Meets a memory limit with exactly k blocks, or proves that it cannot be met.
#include "partition/blocks/memory_fit.h"

#include <algorithm>
#include <limits>
#include <map>

#include "partition/blocks/block_state.h"
#include "partition/blocks/interval_cut.h"
#include "partition/blocks/orders.h"

namespace rannc::partition {
namespace {

std::optional<std::vector<uint32_t>> cut_orders(const LevelGraph& graph, const IntervalLimits& limits) {
  std::optional<std::vector<uint32_t>> best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (OrderKind kind : kAllOrders) {
    auto block_of = cut_order(graph, order_nodes(graph, kind), limits);
    if (!block_of) continue;
    const double cost = crossing_cost(graph, *block_of, limits.blocks);
    if (cost < best_cost) {
      best_cost = cost;
      best = std::move(block_of);
    }
  }
  return best;
}

using DownSet = std::vector<uint64_t>;  // one bit per node

constexpr size_t kMostBytes = size_t{256} << 20;  // of all down-sets together
constexpr size_t kMostLooks = 400'000'000;        // at nodes, whether they can come next
constexpr size_t kBytesBeside = 128;              // overhead of a down-set besides its bits

/// Limit on the down-sets that the exact search may store.
size_t most_down_sets(const LevelGraph& graph, size_t requested) {
  const size_t nodes = std::max<size_t>(graph.nodes(), 1), each = (nodes + 63) / 64 * sizeof(uint64_t) + kBytesBeside;
  return std::max<size_t>(1, std::min({requested, kMostBytes / each, kMostLooks / nodes}));
}

struct State {
  uint32_t blocks = 0;
  uint64_t last_bytes = 0;
  uint32_t added = UINT32_MAX;  // the node that completed this down-set on its best path
};

bool contains(const DownSet& set, uint32_t node) { return set[node / 64] >> (node % 64) & 1; }

bool ready(const LevelGraph& graph, const DownSet& set, uint32_t node) {
  for (uint32_t e : graph.inputs.row(node)) {
    if (!contains(set, graph.producer(e))) return false;
  }
  return true;
}

State extend(const LevelGraph& graph, const State& state, uint32_t node, uint64_t limit) {
  const uint64_t sum = state.last_bytes + graph.memory[node];
  if (state.blocks > 0 && sum >= state.last_bytes && sum <= limit) return {state.blocks, sum, node};
  return {state.blocks + 1, graph.memory[node], node};
}

/// Adds the down-sets with one more node, each with its best path. Returns false if there are more than `most`.
bool grow(const LevelGraph& graph, const std::map<DownSet, State>& layer, uint64_t limit, size_t most,
          std::map<DownSet, State>& next) {
  for (const auto& [set, state] : layer) {
    for (uint32_t v = 0; v < graph.nodes(); ++v) {
      if (contains(set, v) || !ready(graph, set, v)) continue;
      DownSet larger = set;
      larger[v / 64] |= uint64_t{1} << (v % 64);
      const State candidate = extend(graph, state, v, limit);
      auto [it, fresh] = next.try_emplace(std::move(larger), candidate);
      const State& old = it->second;
      if (!fresh && std::pair(candidate.blocks, candidate.last_bytes) < std::pair(old.blocks, old.last_bytes)) {
        it->second = candidate;
      }
    }
    if (next.size() > most) return false;
  }
  return true;
}

/// Returns the blocks along the path stored in the layers. Splits blocks until there are k.
std::vector<uint32_t> retrace(const LevelGraph& graph, const std::vector<std::map<DownSet, State>>& layers,
                              uint64_t limit, uint32_t k) {
  DownSet set = layers.back().begin()->first;
  std::vector<uint32_t> order;
  for (size_t layer = layers.size() - 1; layer > 0; --layer) {
    const uint32_t node = layers[layer].at(set).added;
    order.push_back(node);
    set[node / 64] &= ~(uint64_t{1} << (node % 64));
  }
  std::reverse(order.begin(), order.end());
  IntervalLimits limits{k, std::numeric_limits<double>::infinity(), limit};
  auto block_of = cut_order(graph, order, limits);
  RANNC_CHECK(block_of.has_value()) << "the order of the exact memory search does not split into " << k;
  return *std::move(block_of);
}

}  // namespace

MemoryFit fit_memory(const LevelGraph& graph, uint32_t blocks, uint64_t memory_limit, double imbalance,
                     size_t max_down_sets) {
  MemoryFit fit;
  uint64_t total = 0;
  for (uint64_t bytes : graph.memory) total += bytes;
  fit.least_blocks =
      memory_limit == 0
          ? 1
          : static_cast<uint32_t>(std::min<uint64_t>(total / memory_limit + (total % memory_limit != 0), UINT32_MAX));
  fit.least_blocks = std::max(fit.least_blocks, 1u);
  if (fit.least_blocks > blocks) {
    fit.exhaustive = true;
    return fit;
  }
  for (double work : {work_limit(graph, blocks, imbalance), std::numeric_limits<double>::infinity()}) {
    fit.block_of = cut_orders(graph, {blocks, work, memory_limit});
    if (fit.block_of) return fit;
  }
  std::vector<std::map<DownSet, State>> layers(1);
  layers[0][DownSet((graph.nodes() + 63) / 64, 0)] = State{};
  const size_t most = most_down_sets(graph, max_down_sets);
  fit.down_sets = 1;
  for (uint32_t size = 0; size < graph.nodes(); ++size) {
    std::map<DownSet, State> next;
    if (!grow(graph, layers[size], memory_limit, most - fit.down_sets, next)) return fit;
    fit.down_sets += next.size();
    layers.push_back(std::move(next));
  }
  fit.exhaustive = true;
  fit.least_blocks = std::max(fit.least_blocks, layers.back().begin()->second.blocks);
  if (fit.least_blocks <= blocks) fit.block_of = retrace(graph, layers, memory_limit, blocks);
  return fit;
}

}  // namespace rannc::partition
