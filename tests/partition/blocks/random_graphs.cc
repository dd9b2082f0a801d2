// Generates the graph families on which partitioners are compared.
#include "tests/partition/blocks/random_graphs.h"

#include <algorithm>
#include <functional>

namespace rannc::partition::testing {
namespace {

/// std distributions differ between libraries; these do not.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(engine_() % n); }
  bool chance(double p) { return unit() < p; }
  double unit() { return (engine_() >> 11) * 0x1.0p-53; }

 private:
  std::mt19937_64 engine_;
};

void layered(DagBuilder& b, uint32_t n, Random& random) {
  const uint32_t width = 2 + random.below(std::max(2u, std::min(30u, n / 8)));
  const double density = 0.3 + 0.4 * random.unit();
  for (uint32_t t = 0; t < n; ++t) {
    b.task(1);
    const uint32_t layer = t / width;
    if (layer == 0) continue;
    const uint32_t from = (layer - 1) * width;
    const uint32_t degree = std::min(width, 4u);
    b.read(from + random.below(width), t);
    for (uint32_t i = 1; i < degree; ++i) {
      if (random.chance(density)) b.read(from + random.below(width), t);
    }
    if (layer > 2 && random.chance(0.05)) b.read((layer - 3) * width + random.below(width), t);
  }
}

/// Grows a series-parallel graph by splitting random edges in series or in parallel.
void series_parallel(DagBuilder& b, uint32_t n, Random& random) {
  struct Edge {
    uint32_t from, to;
  };
  b.task(1);
  b.task(1);
  std::vector<Edge> edges{{0, 1}};
  for (uint32_t t = 2; t < n; ++t) {
    b.task(1);
    const uint32_t pick = random.below(static_cast<uint32_t>(edges.size()));
    const Edge edge = edges[pick];
    if (!random.chance(0.35)) {
      edges[pick] = {edge.from, t};
    } else {
      edges.push_back({edge.from, t});
    }
    edges.push_back({t, edge.to});
  }
  for (const Edge& edge : edges) b.read(edge.from, edge.to);
}

/// p, q -> r, s with all four edges, chained and mixed with single tasks.
void crossing(DagBuilder& b, uint32_t n, Random& random) {
  uint32_t p = b.task(1), q = b.task(1), made = 2;
  while (made + 2 <= n) {
    const uint32_t r = b.task(1), s = b.task(1);
    for (uint32_t from : {p, q}) {
      for (uint32_t to : {r, s}) {
        if (from == p || to == s || random.chance(0.85)) b.read(from, to);
      }
    }
    p = r;
    q = s;
    made += 2;
    if (made < n && random.chance(0.3)) {
      const uint32_t joined = b.task(1);
      b.read(p, joined);
      if (random.chance(0.5)) b.read(q, joined);
      p = joined;
      ++made;
    }
  }
}

void butterfly(DagBuilder& b, uint32_t n, Random& random) {
  const uint32_t bits = 2 + random.below(n >= 200 ? 4 : 2), width = 1u << bits;
  for (uint32_t t = 0; t < n; ++t) {
    b.task(1);
    const uint32_t stage = t / width, lane = t % width;
    if (stage == 0) continue;
    b.read((stage - 1) * width + lane, t);
    b.read((stage - 1) * width + (lane ^ (1u << ((stage - 1) % bits))), t);
  }
}

/// About 59 tasks a layer: three projections, heads, a residual, a feed-forward chain, and a mask read by every layer.
void bert(DagBuilder& b, uint32_t n, Random&) {
  auto after = [&](std::initializer_list<uint32_t> from) {
    const uint32_t t = b.task(1);
    for (uint32_t f : from) b.read(f, t);
    return t;
  };
  auto chain = [&](uint32_t from, uint32_t length) {
    for (uint32_t i = 0; i < length; ++i) from = after({from});
    return from;
  };
  uint32_t hidden = b.task(1);
  const uint32_t layers = std::max(1u, n / 59);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const uint32_t q = chain(hidden, 8), k = chain(hidden, 8), v = chain(hidden, 8);
    const uint32_t scores = chain(after({q, k}), 4);
    const uint32_t context = chain(after({scores, v}), 4);
    const uint32_t attended = chain(after({context, hidden}), 6);
    const uint32_t inner = chain(attended, 11);
    hidden = chain(after({inner, attended}), 6);
  }
}

void mixture(DagBuilder& b, uint32_t n, Random&) {
  uint32_t hidden = b.task(1);
  for (uint32_t made = 1; made + 230 <= std::max(n, 231u);) {
    const uint32_t router = b.task(1);
    b.read(hidden, router);
    std::vector<uint32_t> outs;
    for (uint32_t expert = 0; expert < 64; ++expert) {
      const uint32_t in = b.task(1), mid = b.task(1), out = b.task(1);
      b.read(router, in);
      b.read(hidden, in);
      b.read(in, mid);
      b.read(mid, out);
      outs.push_back(out);
    }
    const uint32_t joined = b.task(1);
    for (uint32_t out : outs) b.read(out, joined);
    b.read(hidden, joined);
    hidden = joined;
    made += 194;
    for (uint32_t i = 0; i < 36; ++i, ++made) {
      const uint32_t next = b.task(1);
      b.read(hidden, next);
      hidden = next;
    }
  }
}

/// Sixteen chains that exchange values now and then.
void multi(DagBuilder& b, uint32_t n, Random& random) {
  constexpr uint32_t kTowers = 16;
  std::vector<uint32_t> last(kTowers, UINT32_MAX);
  for (uint32_t t = 0; t < n; ++t) {
    b.task(1);
    const uint32_t tower = t % kTowers;
    if (last[tower] != UINT32_MAX) b.read(last[tower], t);
    if (t >= 4 * kTowers && random.chance(0.02)) {
      const uint32_t other = (tower + 1) % kTowers;
      if (last[other] != t) b.read(last[other], t);
    }
    last[tower] = t;
  }
}

/// A recurrent network of 64 layers unrolled over time; each cell is four tasks.
void grid(DagBuilder& b, uint32_t n, Random&) {
  constexpr uint32_t kCell = 4;
  const uint32_t height = n >= 4096 ? 64 : 8, steps = std::max(1u, n / (height * kCell));
  std::vector<uint32_t> below(steps, UINT32_MAX);
  for (uint32_t layer = 0; layer < height; ++layer) {
    uint32_t before = UINT32_MAX;
    for (uint32_t step = 0; step < steps; ++step) {
      const uint32_t gates = b.task(1), cell = b.task(1), out = b.task(1), mixed = b.task(1);
      if (before != UINT32_MAX) b.read(before, gates);
      if (below[step] != UINT32_MAX) b.read(below[step], gates);
      b.read(gates, cell);
      b.read(gates, out);
      b.read(cell, mixed);
      b.read(out, mixed);
      before = below[step] = mixed;
    }
  }
}

/// Random edges to tasks a bounded distance earlier.
void local(DagBuilder& b, uint32_t n, Random& random) {
  const uint32_t reach = std::max(4u, std::min(1000u, n / 10));
  for (uint32_t t = 0; t < n; ++t) {
    b.task(1);
    if (t == 0) continue;
    const uint32_t degree = 1 + random.below(3);
    for (uint32_t i = 0; i < degree; ++i) b.read(t - 1 - random.below(std::min(t, reach)), t);
  }
}

using Family = void (*)(DagBuilder&, uint32_t, Random&);
const std::pair<const char*, Family> kFamilies[] = {{"layered", layered},   {"series-parallel", series_parallel},
                                                    {"crossing", crossing}, {"butterfly", butterfly},
                                                    {"bert", bert},         {"moe", mixture},
                                                    {"multi", multi},       {"grid", grid},
                                                    {"local", local}};

}  // namespace

uint32_t DagBuilder::task(double work, uint64_t resident_bytes) {
  dag_.forward.push_back(work);
  dag_.backward.push_back(0);
  dag_.resident_bytes.push_back(resident_bytes);
  dag_.stashed_bytes.push_back(0);
  readers_.emplace_back();
  return dag_.tasks() - 1;
}

Dag DagBuilder::build(const std::vector<double>& cost) && {
  dag_.value_readers.offsets.push_back(0);
  for (uint32_t t = 0; t < dag_.tasks(); ++t) {
    std::vector<uint32_t>& readers = readers_[t];
    if (readers.empty()) continue;
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    dag_.value_producer.push_back(t);
    dag_.value_cost.push_back(t < cost.size() ? cost[t] : 1);
    dag_.value_bytes.push_back(static_cast<uint64_t>(dag_.value_cost.back() * 1000));
    auto& items = dag_.value_readers.items;
    items.insert(items.end(), readers.begin(), readers.end());
    dag_.value_readers.offsets.push_back(static_cast<uint32_t>(items.size()));
  }
  index_tasks(dag_);
  return std::move(dag_);
}

std::vector<std::string> graph_families() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kFamilies) names.push_back(name);
  return names;
}

Dag make_graph(const GraphSpec& spec) {
  Random random(spec.seed * 0x9e3779b97f4a7c15ull + 1);
  DagBuilder builder;
  for (const auto& [name, make] : kFamilies) {
    if (spec.family == name) make(builder, spec.tasks, random);
  }
  if (spec.weights == Weights::kUnit) return std::move(builder).build();
  std::vector<double> cost;
  for (uint32_t t = 0; t < spec.tasks * 2 + 1000; ++t) cost.push_back(0.1 + 3 * random.unit());
  Dag dag = std::move(builder).build(cost);
  for (uint32_t t = 0; t < dag.tasks(); ++t) {
    dag.forward[t] = 0.2 + 2 * random.unit();
    dag.backward[t] = 2 * random.unit();
    dag.resident_bytes[t] = 1 + random.below(100);
    dag.stashed_bytes[t] = random.below(20);
  }
  return dag;
}

Dag permute_tasks(const Dag& dag, const std::vector<uint32_t>& new_id) {
  Dag out;
  const uint32_t n = dag.tasks();
  std::vector<uint32_t> old_id(n);
  for (uint32_t t = 0; t < n; ++t) old_id[new_id[t]] = t;
  for (uint32_t t = 0; t < n; ++t) {
    out.forward.push_back(dag.forward[old_id[t]]);
    out.backward.push_back(dag.backward[old_id[t]]);
    out.resident_bytes.push_back(dag.resident_bytes[old_id[t]]);
    out.stashed_bytes.push_back(dag.stashed_bytes[old_id[t]]);
    if (!dag.names.empty()) out.names.push_back(dag.names[old_id[t]]);
  }
  out.value_readers.offsets.push_back(0);
  for (uint32_t t = 0; t < n; ++t) {
    for (uint32_t v : dag.task_outputs.row(old_id[t])) {
      out.value_producer.push_back(t);
      out.value_bytes.push_back(dag.value_bytes[v]);
      out.value_cost.push_back(dag.value_cost[v]);
      std::vector<uint32_t> readers;
      for (uint32_t reader : dag.value_readers.row(v)) readers.push_back(new_id[reader]);
      std::sort(readers.begin(), readers.end());
      out.value_readers.items.insert(out.value_readers.items.end(), readers.begin(), readers.end());
      out.value_readers.offsets.push_back(static_cast<uint32_t>(out.value_readers.items.size()));
    }
  }
  index_tasks(out);
  return out;
}

}  // namespace rannc::partition::testing
