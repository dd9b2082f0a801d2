// Partitions with METIS and repairs the undirected partition into one with an acyclic quotient.
#include "partition/blocks/metis_blocks.h"

#include <metis.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "partition/blocks/interval_cut.h"
#include "partition/blocks/refine.h"

namespace rannc::partition {
namespace {

/// METIS requires 32-bit weights whose sum fits. This is the largest sum used here.
constexpr double kWeightSum = 1e9;

struct UndirectedGraph {
  std::vector<idx_t> offsets, neighbours, edge_weights, node_weights;
};

UndirectedGraph undirected(const LevelGraph& graph) {
  UndirectedGraph out;
  const uint32_t n = graph.nodes();
  double total_cost = 0;
  for (uint32_t e = 0; e < graph.nets(); ++e) total_cost += graph.cost[e] * graph.readers(e).size();
  const double scale = total_cost > 0 ? std::min(kWeightSum / total_cost, 1e9) : 0;
  const double total_work = std::accumulate(graph.work.begin(), graph.work.end(), 0.0);
  const double work_scale = total_work > 0 ? kWeightSum / total_work : 0;
  out.offsets.push_back(0);
  std::vector<uint32_t> place(n, UINT32_MAX);  // place of each neighbour of the current node
  for (uint32_t v = 0; v < n; ++v) {
    out.node_weights.push_back(static_cast<idx_t>(graph.work[v] * work_scale));
    const size_t begin = out.neighbours.size();
    auto add = [&](uint32_t other, double cost) {
      const idx_t weight = std::max<idx_t>(1, static_cast<idx_t>(cost * scale));
      if (place[other] != UINT32_MAX && place[other] >= begin && place[other] < out.neighbours.size() &&
          out.neighbours[place[other]] == static_cast<idx_t>(other)) {
        out.edge_weights[place[other]] += weight;
        return;
      }
      place[other] = static_cast<uint32_t>(out.neighbours.size());
      out.neighbours.push_back(static_cast<idx_t>(other));
      out.edge_weights.push_back(weight);
    };
    for (uint32_t e : graph.inputs.row(v)) add(graph.producer(e), graph.cost[e]);
    for (uint32_t e : graph.outputs(v)) {
      for (uint32_t reader : graph.readers(e)) add(reader, graph.cost[e]);
    }
    out.offsets.push_back(static_cast<idx_t>(out.neighbours.size()));
  }
  return out;
}

/// Runs METIS. Returns blocks numbered by the mean id of their nodes; empty if METIS returns none.
std::vector<uint32_t> metis_partition(const LevelGraph& graph, const BlockOptions& options) {
  UndirectedGraph input = undirected(graph);
  idx_t n = static_cast<idx_t>(graph.nodes()), constraints = 1, parts = static_cast<idx_t>(options.blocks), cut = 0;
  idx_t settings[METIS_NOPTIONS];
  METIS_SetDefaultOptions(settings);
  settings[METIS_OPTION_SEED] = static_cast<idx_t>(options.seed & 0x7fffffff);
  settings[METIS_OPTION_UFACTOR] = std::max<idx_t>(1, static_cast<idx_t>(std::min(options.imbalance, 1.0) * 1000));
  std::vector<idx_t> part(graph.nodes(), 0);
  if (parts > 1 && input.neighbours.size() > 0) {
    const int status =
        METIS_PartGraphKway(&n, &constraints, input.offsets.data(), input.neighbours.data(), input.node_weights.data(),
                            nullptr, input.edge_weights.data(), &parts, nullptr, nullptr, settings, &cut, part.data());
    if (status != METIS_OK) return {};
  }
  std::vector<double> sum(options.blocks, 0), count(options.blocks, 0);
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    sum[part[v]] += v;
    count[part[v]] += 1;
  }
  std::vector<uint32_t> by_mean(options.blocks), number(options.blocks);
  std::iota(by_mean.begin(), by_mean.end(), 0);
  std::stable_sort(by_mean.begin(), by_mean.end(), [&](uint32_t a, uint32_t b) {
    return sum[a] / std::max(count[a], 1.0) < sum[b] / std::max(count[b], 1.0);
  });
  for (uint32_t i = 0; i < options.blocks; ++i) number[by_mean[i]] = i;
  std::vector<uint32_t> block_of(graph.nodes());
  for (uint32_t v = 0; v < graph.nodes(); ++v) block_of[v] = number[part[v]];
  return block_of;
}

/// Returns the topological order that takes the ready node of the lowest block first, ties by id.
std::vector<uint32_t> order_by_block(const LevelGraph& graph, const std::vector<uint32_t>& block_of) {
  std::vector<uint32_t> missing(graph.nodes()), order;
  using Entry = std::pair<uint32_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    missing[v] = static_cast<uint32_t>(graph.inputs.row(v).size());
    if (missing[v] == 0) ready.emplace(block_of[v], v);
  }
  while (!ready.empty()) {
    const uint32_t v = ready.top().second;
    ready.pop();
    order.push_back(v);
    for (uint32_t e : graph.outputs(v)) {
      for (uint32_t reader : graph.readers(e)) {
        if (--missing[reader] == 0) ready.emplace(block_of[reader], reader);
      }
    }
  }
  return order;
}

void lift(const LevelGraph& graph, std::vector<uint32_t>& block_of) {
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    for (uint32_t e : graph.inputs.row(v)) block_of[v] = std::max(block_of[v], block_of[graph.producer(e)]);
  }
}

}  // namespace

BlockPartition MetisBlocks::search(const Dag& dag, std::span<const uint32_t> tasks, const BlockOptions& options) const {
  const LevelGraph graph = level_zero(dag, tasks, options.in_flight);
  const double work = work_limit(graph, options.blocks, options.imbalance);
  const IntervalLimits limits{options.blocks, work, options.memory_limit_bytes};
  std::vector<uint32_t> seed = metis_partition(graph, options);
  if (seed.empty()) return {};

  // The order by lifted blocks changes METIS's blocks least; the plain order keeps their shape.
  std::vector<uint32_t> lifted = seed;
  lift(graph, lifted);
  BlockPartition best;
  double best_cost = 0;
  for (const std::vector<uint32_t>* blocks : {&seed, &lifted}) {
    auto block_of = cut_order(graph, order_by_block(graph, *blocks), limits);
    if (!block_of) continue;
    BlockState state(graph, *std::move(block_of), options.blocks);
    if (options.refine) {
      std::function<void()> moved;
      if (options.recorder) {
        moved = [&] {
          std::vector<uint32_t> of_task(tasks.size());
          for (uint32_t i = 0; i < tasks.size(); ++i) of_task[tasks[i]] = state.block(i);
          options.recorder->step(BlockStep::kMove, of_task, options.blocks);
        };
      }
      refine(graph, state, {work, options.memory_limit_bytes, 4}, moved);
    }
    const double cost = state.crossing_cost();
    if (!best.block_of.empty() && cost >= best_cost) continue;
    best_cost = cost;
    best.count = options.blocks;
    best.block_of.resize(tasks.size());
    for (uint32_t i = 0; i < tasks.size(); ++i) best.block_of[tasks[i]] = state.block(i);
  }
  return best;
}

}  // namespace rannc::partition
