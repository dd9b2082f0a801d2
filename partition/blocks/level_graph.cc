// Builds and contracts levels of a multilevel hierarchy.
#include "partition/blocks/level_graph.h"

#include <algorithm>
#include <numeric>

#include "partition/metrics.h"

namespace rannc::partition {
namespace {

uint64_t saturating_sum(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum < a ? UINT64_MAX : sum;
}

/// Appends nets one by one. Drops nets with a single pin.
class NetBuilder {
 public:
  explicit NetBuilder(LevelGraph& graph) : graph_(graph) { graph_.pins.offsets.push_back(0); }

  void open(uint32_t producer) { graph_.pins.items.push_back(producer); }
  void add(uint32_t reader) { graph_.pins.items.push_back(reader); }
  void sort_readers() {
    const auto first = graph_.pins.items.begin() + graph_.pins.offsets.back() + 1, end = graph_.pins.items.end();
    if (end - first == 2) {
      if (first[1] < first[0]) std::swap(first[0], first[1]);
    } else if (end - first > 2) {
      std::sort(first, end);
    }
  }
  void close(double cost) {
    const uint32_t begin = graph_.pins.offsets.back();
    if (graph_.pins.items.size() - begin < 2) {
      graph_.pins.items.resize(begin);
      return;
    }
    graph_.pins.offsets.push_back(static_cast<uint32_t>(graph_.pins.items.size()));
    graph_.cost.push_back(cost);
  }
  /// The new net has one reader: merge it into `net` and drop it.
  void fold_into(uint32_t net, double cost) {
    graph_.pins.items.resize(graph_.pins.offsets.back());
    graph_.cost[net] += cost;
  }
  uint32_t open_readers() const {
    return static_cast<uint32_t>(graph_.pins.items.size()) - graph_.pins.offsets.back() - 1;
  }
  uint32_t last_pin() const { return graph_.pins.items.back(); }

 private:
  LevelGraph& graph_;
};

}  // namespace

void index_nodes(LevelGraph& graph) {
  const uint32_t n = graph.nodes();
  graph.producers.reserve(graph.nets());
  graph.first_output.assign(n + 1, 0);
  // Row v is filled at offsets[v + 1], which ends where row v + 1 begins.
  graph.inputs.offsets.assign(n + 2, 0);
  for (uint32_t e = 0; e < graph.nets(); ++e) {
    const uint32_t producer = graph.pins.items[graph.pins.offsets[e]];
    RANNC_CHECK(e == 0 || graph.producers.back() <= producer) << "nets are numbered by producer";
    graph.producers.push_back(producer);
    ++graph.first_output[producer + 1];
    for (uint32_t reader : graph.readers(e)) ++graph.inputs.offsets[reader + 2];
  }
  for (std::vector<uint32_t>* offsets : {&graph.first_output, &graph.inputs.offsets})
    std::partial_sum(offsets->begin(), offsets->end(), offsets->begin());
  graph.inputs.items.resize(graph.inputs.offsets.back());
  for (uint32_t e = 0; e < graph.nets(); ++e) {
    for (uint32_t reader : graph.readers(e)) graph.inputs.items[graph.inputs.offsets[reader + 1]++] = e;
  }
  graph.inputs.offsets.pop_back();
}

LevelGraph level_zero(const Dag& dag, std::span<const uint32_t> order, uint32_t in_flight) {
  LevelGraph graph;
  const uint32_t n = dag.tasks();
  std::vector<uint32_t> place(n);
  graph.work.resize(n);
  graph.memory.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t task = order[i];
    place[task] = i;
    graph.work[i] = dag.work(task);
    graph.memory[i] = memory_bytes(dag.resident_bytes[task], dag.stashed_bytes[task], in_flight);
  }
  graph.pins.items.reserve(dag.values() + dag.value_readers.items.size());
  graph.pins.offsets.reserve(dag.values() + 1);
  graph.cost.reserve(dag.values());
  NetBuilder nets(graph);
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t v : dag.task_outputs.row(order[i])) {
      nets.open(i);
      for (uint32_t reader : dag.value_readers.row(v)) nets.add(place[reader]);
      nets.sort_readers();  // by place, so that the result does not depend on the tasks' own numbers
      nets.close(dag.value_cost[v]);
    }
  }
  index_nodes(graph);
  return graph;
}

LevelGraph contract(const LevelGraph& graph, std::span<const uint32_t> group_of, uint32_t groups) {
  LevelGraph coarse;
  coarse.work.assign(groups, 0);
  coarse.memory.assign(groups, 0);
  Csr members;
  members.offsets.assign(groups + 1, 0);
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    const uint32_t g = group_of[v];
    coarse.work[g] += graph.work[v];
    coarse.memory[g] = saturating_sum(coarse.memory[g], graph.memory[v]);
    ++members.offsets[g + 1];
  }
  std::partial_sum(members.offsets.begin(), members.offsets.end(), members.offsets.begin());
  members.items.resize(graph.nodes());
  std::vector<uint32_t> next(members.offsets.begin(), members.offsets.end() - 1);
  for (uint32_t v = 0; v < graph.nodes(); ++v) members.items[next[group_of[v]]++] = v;

  // Pages that stay unused are never touched.
  coarse.pins.items.reserve(graph.pins.items.size());
  coarse.pins.offsets.reserve(graph.nets() + 1);
  coarse.cost.reserve(graph.nets());
  NetBuilder nets(coarse);
  std::vector<uint32_t> seen_by_net(groups, UINT32_MAX);
  std::vector<uint32_t> single_net(groups, UINT32_MAX), single_owner(groups, UINT32_MAX);
  for (uint32_t g = 0; g < groups; ++g) {
    for (uint32_t v : members.row(g)) {
      for (uint32_t e : graph.outputs(v)) {
        nets.open(g);
        seen_by_net[g] = e;
        for (uint32_t reader : graph.readers(e)) {
          const uint32_t r = group_of[reader];
          if (seen_by_net[r] == e) continue;
          seen_by_net[r] = e;
          nets.add(r);
        }
        if (nets.open_readers() == 1) {
          const uint32_t r = nets.last_pin();
          if (single_owner[r] == g) {
            nets.fold_into(single_net[r], graph.cost[e]);
            continue;
          }
          single_owner[r] = g;
          single_net[r] = coarse.nets();
        }
        nets.close(graph.cost[e]);
      }
    }
  }
  index_nodes(coarse);
  return coarse;
}

uint32_t compress_ranks(std::vector<uint32_t>& rank, uint32_t rank_limit) {
  std::vector<uint32_t> dense(rank_limit, 0);
  for (uint32_t r : rank) dense[r] = 1;
  uint32_t count = 0;
  for (uint32_t& d : dense) {
    const uint32_t used = d;
    d = count;
    count += used;
  }
  for (uint32_t& r : rank) r = dense[r];
  return count;
}

}  // namespace rannc::partition
