// Builds, reduces and evaluates contiguous splits.
#include "partition/reference/split_problem.h"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/pending/disjoint_sets.hpp>
#include <boost/property_map/property_map.hpp>
#include <cmath>
#include <map>
#include <numeric>

namespace rannc::partition {
namespace {

/// Disjoint sets of nodes, each represented by its least member.
class Union {
 public:
  explicit Union(size_t n) : rank_(n, 0), parent_(n), least_(n), sets_(Map(rank_.begin()), Map(parent_.begin())) {
    std::iota(parent_.begin(), parent_.end(), 0);
    std::iota(least_.begin(), least_.end(), 0);
  }
  Union(const Union&) = delete;
  Union& operator=(const Union&) = delete;

  uint32_t find(uint32_t x) { return least_[sets_.find_set(x)]; }
  void join(uint32_t a, uint32_t b) {
    const uint32_t least = std::min(find(a), find(b));
    sets_.union_set(a, b);
    least_[sets_.find_set(a)] = least;
  }

 private:
  using Map = boost::iterator_property_map<std::vector<uint32_t>::iterator,
                                           boost::typed_identity_property_map<uint32_t>, uint32_t, uint32_t&>;
  std::vector<uint32_t> rank_, parent_, least_;  // the last by root
  boost::disjoint_sets<Map, Map> sets_;
};

Csr csr_of(uint32_t rows, std::vector<std::pair<uint32_t, uint32_t>> pairs) {
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  Csr csr;
  csr.offsets.assign(rows + 1, 0);
  for (const auto& [row, item] : pairs) {
    ++csr.offsets[row + 1];
    csr.items.push_back(item);
  }
  std::partial_sum(csr.offsets.begin(), csr.offsets.end(), csr.offsets.begin());
  return csr;
}

/// Strongly connected components, numbered topologically. `after` per node.
std::vector<uint32_t> components(const Csr& after, uint32_t& count) {
  using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
  const uint32_t n = after.rows();
  // Nodes are visited from the last one, so that among unordered nodes the first gets the lower number.
  const auto mirrored = [n](uint32_t node) { return n - 1 - node; };
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (uint32_t v = n; v-- > 0;) {
    for (const uint32_t w : after.row(v)) edges.emplace_back(mirrored(v), mirrored(w));
  }
  const Graph graph(boost::edges_are_sorted, edges.begin(), edges.end(), n);
  std::vector<uint32_t> found(n), component(n);
  count = boost::strong_components(
      graph, boost::make_iterator_property_map(found.begin(), boost::get(boost::vertex_index, graph)));
  // Sinks are finished first.
  for (uint32_t v = 0; v < n; ++v) component[v] = count - 1 - found[mirrored(v)];
  return component;
}

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

/// Fills `pins`, `cost` and `values` from a source's values. Values with equal pins are merged.
void merge_values(SplitProblem& problem, const std::vector<SplitSource::Value>& values) {
  std::map<std::vector<uint32_t>, double> merged;
  for (const SplitSource::Value& value : values) {
    std::vector<uint32_t> pins;
    for (uint32_t reader : value.readers) pins.push_back(problem.unit_of[reader]);
    std::sort(pins.begin(), pins.end());
    pins.erase(std::unique(pins.begin(), pins.end()), pins.end());
    const uint32_t home = problem.unit_of[value.producer];
    pins.erase(std::remove(pins.begin(), pins.end(), home), pins.end());
    pins.insert(pins.begin(), home);
    if (pins.size() > 1 && value.cost > 0) merged[std::move(pins)] += value.cost;
  }
  Pairs touches;
  problem.pins.offsets.push_back(0);
  for (const auto& [pins, cost] : merged) {
    for (uint32_t unit : pins) touches.emplace_back(unit, static_cast<uint32_t>(problem.cost.size()));
    problem.cost.push_back(cost);
    problem.pins.items.insert(problem.pins.items.end(), pins.begin(), pins.end());
    problem.pins.offsets.push_back(static_cast<uint32_t>(problem.pins.items.size()));
  }
  problem.values = csr_of(problem.units(), std::move(touches));
}

/// Returns the problem whose units are the strongly connected components of the sets of `join` under `order`.
SplitProblem condense(const std::vector<double>& work, const std::vector<uint64_t>& bytes, Union& join,
                      const Pairs& order, const std::vector<SplitSource::Value>& values, uint64_t memory_limit) {
  const uint32_t n = static_cast<uint32_t>(work.size());
  Pairs between;
  for (const auto& [from, to] : order) {
    if (join.find(from) != join.find(to)) between.emplace_back(join.find(from), join.find(to));
  }
  SplitProblem problem;
  problem.memory_limit = memory_limit;
  uint32_t components_found = 0;
  const std::vector<uint32_t> component = components(csr_of(n, between), components_found);
  // Nodes absorbed by a set are components of their own. Number only those that represent a set.
  std::vector<uint32_t> number(components_found, UINT32_MAX);
  std::vector<bool> used(components_found, false);
  for (uint32_t v = 0; v < n; ++v) used[component[join.find(v)]] = true;
  uint32_t units = 0;
  for (uint32_t c = 0; c < components_found; ++c) {
    if (used[c]) number[c] = units++;
  }
  problem.work.assign(units, 0);
  problem.bytes.assign(units, 0);
  problem.unit_of.resize(n);
  for (uint32_t v = 0; v < n; ++v) {
    const uint32_t unit = problem.unit_of[v] = number[component[join.find(v)]];
    problem.work[unit] += work[v];
    problem.bytes[unit] += bytes[v];
  }
  Pairs before, after;
  for (const auto& [from, to] : order) {
    const uint32_t a = problem.unit_of[from], b = problem.unit_of[to];
    if (a == b) continue;
    after.emplace_back(a, b);
    before.emplace_back(b, a);
  }
  problem.after = csr_of(units, std::move(after));
  problem.before = csr_of(units, std::move(before));

  merge_values(problem, values);
  return problem;
}

/// Joins units of a problem, keeping `unit_of` in terms of the source.
SplitProblem rejoin(const SplitProblem& problem, Union& join) {
  std::vector<SplitSource::Value> values;
  for (uint32_t e = 0; e < problem.cost.size(); ++e) {
    const auto pins = problem.pins.row(e);
    values.push_back({pins[0], {pins.begin() + 1, pins.end()}, problem.cost[e]});
  }
  Pairs order;
  for (uint32_t u = 0; u < problem.units(); ++u) {
    for (uint32_t v : problem.after.row(u)) order.emplace_back(u, v);
  }
  SplitProblem out = condense(problem.work, problem.bytes, join, order, values, problem.memory_limit);
  std::vector<uint32_t> unit_of;
  for (uint32_t unit : problem.unit_of) unit_of.push_back(out.unit_of[unit]);
  out.unit_of = std::move(unit_of);
  return out;
}

/// Returns the unit that `u` may be folded into, or none.
uint32_t fold_target(const SplitProblem& problem, uint32_t u) {
  const auto before = problem.before.row(u), after = problem.after.row(u);
  double sent = 0, received = 0;
  bool sole_reader = true;
  for (uint32_t e : problem.values.row(u)) {
    const auto pins = problem.pins.row(e);
    for (uint32_t pin : pins) {
      // A value with a pin that is not a neighbour in the order (a backward value) is left alone.
      if (pin == u) continue;
      const bool neighbour =
          std::binary_search(before.begin(), before.end(), pin) || std::binary_search(after.begin(), after.end(), pin);
      if (!neighbour && (pins[0] == u || pin == pins[0])) return UINT32_MAX;
    }
    if (pins[0] == u) {
      sent += problem.cost[e];
      // Values that go back to a predecessor invalidate the argument.
      for (uint32_t pin : pins.subspan(1)) {
        if (!std::binary_search(after.begin(), after.end(), pin)) return UINT32_MAX;
      }
    } else {
      received += problem.cost[e];
      sole_reader = sole_reader && pins.size() == 2;
      if (!std::binary_search(before.begin(), before.end(), pins[0])) return UINT32_MAX;
    }
  }
  if (before.size() == 1 && (after.empty() || (sole_reader && sent <= received))) return before[0];
  if (after.size() == 1 && (before.empty() || received <= sent)) return after[0];
  return UINT32_MAX;
}

}  // namespace

double SplitProblem::total_work() const { return std::accumulate(work.begin(), work.end(), 0.0); }

Result<SplitProblem> make_split_problem(const SplitSource& source) {
  auto priced = [](double x) { return std::isfinite(x) && x >= 0; };
  double total = 0;
  for (size_t i = 0; i < source.work.size(); ++i) {
    if (!priced(source.work[i])) {
      return error({},
                   "the time of node " + std::to_string(i) + " is " + std::to_string(source.work[i]) +
                       "; a finite number >= 0 is allowed",
                   "X1");
    }
    total += source.work[i];
  }
  for (const SplitSource::Value& value : source.values) {
    if (!priced(value.cost)) {
      return error({},
                   "the cost of the output of node " + std::to_string(value.producer) + " is " +
                       std::to_string(value.cost) + "; a finite number >= 0 is allowed",
                   "X1");
    }
    total += value.cost * (static_cast<double>(value.readers.size()) + 1);
  }
  if (!std::isfinite(total)) return error({}, "the sum of all times and costs is not finite", "X1");
  Union join(source.work.size());
  std::map<uint32_t, uint32_t> first_of;
  for (uint32_t i = 0; i < source.group.size(); ++i)
    join.join(first_of.try_emplace(source.group[i], i).first->second, i);
  return condense(source.work, source.bytes, join, source.order, source.values, source.memory_limit);
}

Result<SplitProblem> split_problem_of(const Dag& dag) {
  RANNC_TRY(validate(dag));
  SplitSource source;
  for (uint32_t t = 0; t < dag.tasks(); ++t) {
    source.work.push_back(dag.work(t));
    source.bytes.push_back(dag.resident_bytes[t] + dag.stashed_bytes[t]);
    source.group.push_back(t);
  }
  for (uint32_t v = 0; v < dag.values(); ++v) {
    const auto readers = dag.value_readers.row(v);
    source.values.push_back({dag.value_producer[v], {readers.begin(), readers.end()}, dag.value_cost[v]});
    for (uint32_t reader : readers) source.order.emplace_back(dag.value_producer[v], reader);
  }
  return make_split_problem(source);
}

std::vector<double> split_loads(const SplitProblem& problem, std::span<const uint32_t> device_of, uint32_t devices) {
  std::vector<double> loads(devices, 0);
  for (uint32_t u = 0; u < problem.units(); ++u) loads[device_of[u]] += problem.work[u];
  std::vector<uint32_t> touched;
  for (uint32_t e = 0; e < problem.cost.size(); ++e) {
    touched.clear();
    for (uint32_t pin : problem.pins.row(e)) touched.push_back(device_of[pin]);
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    if (touched.size() == 1) continue;
    for (uint32_t device : touched) loads[device] += problem.cost[e];
  }
  return loads;
}

bool split_is_legal(const SplitProblem& problem, std::span<const uint32_t> device_of, uint32_t devices) {
  std::vector<uint64_t> bytes(devices, 0);
  for (uint32_t u = 0; u < problem.units(); ++u) {
    if (device_of[u] >= devices) return false;
    bytes[device_of[u]] += problem.bytes[u];
    for (uint32_t v : problem.after.row(u)) {
      if (device_of[u] > device_of[v]) return false;
    }
  }
  return std::all_of(bytes.begin(), bytes.end(), [&](uint64_t b) { return b <= problem.memory_limit; });
}

SplitProblem fold_free_units(const SplitProblem& problem) {
  const uint64_t total = std::accumulate(problem.bytes.begin(), problem.bytes.end(), uint64_t{0});
  const bool memory_binds = total > problem.memory_limit;
  SplitProblem now = problem;
  for (bool changed = true; changed;) {
    changed = false;
    Union join(now.units());
    std::vector<bool> touched(now.units(), false);
    for (uint32_t u = 0; u < now.units(); ++u) {
      if (now.work[u] > 0 || (memory_binds && now.bytes[u] > 0) || touched[u]) continue;
      const uint32_t target = fold_target(now, u);
      if (target == UINT32_MAX || touched[target]) continue;
      // One fold per neighbourhood and round, because each argument applies to the current graph.
      for (uint32_t v : now.before.row(u)) touched[v] = true;
      for (uint32_t v : now.after.row(u)) touched[v] = true;
      touched[u] = true;
      join.join(u, target);
      changed = true;
    }
    if (changed) now = rejoin(now, join);
  }
  return now;
}

SplitProblem fuse_inseparable(const SplitProblem& problem, double bound) {
  SplitProblem now = problem;
  for (bool changed = true; changed;) {
    changed = false;
    Union join(now.units());
    for (uint32_t e = 0; e < now.cost.size(); ++e) {
      const auto pins = now.pins.row(e);
      const bool producer_stuck = now.work[pins[0]] + now.cost[e] >= bound;
      for (uint32_t pin : pins.subspan(1)) {
        if (!producer_stuck && now.work[pin] + now.cost[e] < bound) continue;
        join.join(pins[0], pin);
        changed = true;
      }
    }
    if (changed) now = rejoin(now, join);
  }
  return now;
}

}  // namespace rannc::partition
