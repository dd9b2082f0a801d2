// Finds the antichain states of a profile as down-sets.
#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <deque>
#include <map>

#include "partition/stages/papers/pipedream.h"
#include "partition/stages/pricing/range_costs.h"
#include "partition/stages/problem/profile_problem.h"

namespace rannc::partition {
namespace {

using Bits = boost::dynamic_bitset<uint64_t>;

/// The profile without inputs and unused sinks, in topological order.
struct Layers {
  std::vector<const ProfileNode*> nodes;
  std::vector<std::vector<uint32_t>> out;
  std::vector<Bits> ancestors;  ///< without the node itself
  uint32_t source = 0;          ///< the source that stands first in the file
};

Result<Layers> layers_of(const PipedreamProfile& profile) {
  const size_t n = profile.nodes.size();
  const std::vector<char> keep = optimized_layers(profile);
  const Dag dag = dag_of_profile(profile, 1, 1);
  RANNC_TRY(validate(dag));
  RANNC_ASSIGN(const std::vector<uint32_t> order, topological_order(dag));
  Layers layers;
  std::vector<uint32_t> place(n, UINT32_MAX);
  for (const uint32_t node : order) {
    if (!keep[node]) continue;
    place[node] = static_cast<uint32_t>(layers.nodes.size());
    layers.nodes.push_back(&profile.nodes[node]);
  }
  const size_t kept = layers.nodes.size();
  if (kept == 0) return error("the profile holds nothing but inputs");
  layers.out.resize(kept);
  layers.ancestors.assign(kept, Bits(kept));
  std::vector<char> fed(kept, 0);
  for (const auto& [from, to] : profile.edges) {
    if (place[from] == UINT32_MAX || place[to] == UINT32_MAX) continue;
    layers.out[place[from]].push_back(place[to]);
    fed[place[to]] = 1;
  }
  for (uint32_t u = 0; u < kept; ++u) {
    for (const uint32_t v : layers.out[u]) {
      layers.ancestors[v] |= layers.ancestors[u];
      layers.ancestors[v].set(u);
    }
  }
  for (size_t i = n; i-- > 0;) {
    if (place[i] != UINT32_MAX && !fed[place[i]]) layers.source = place[i];
  }
  return layers;
}

/// Returns the bytes that leave the down-set, as the released program counts them.
double output_of(const Layers& layers, const Bits& set) {
  const size_t n = layers.nodes.size();
  Bits inner(n), augmented(n);
  for (size_t u = set.find_first(); u != Bits::npos; u = set.find_next(u)) inner |= layers.ancestors[u];
  Bits members = set;
  members -= inner;
  for (size_t x = members.find_first(); x != Bits::npos; x = members.find_next(x)) {
    augmented.set(x);
    const Bits& above = layers.ancestors[x];
    for (size_t p = above.find_first(); p != Bits::npos; p = above.find_next(p)) {
      for (const uint32_t reader : layers.out[p]) {
        if (reader != x && !above.test(reader)) augmented.set(p);
      }
    }
  }
  double bytes = 0;
  for (size_t u = augmented.find_first(); u != Bits::npos; u = augmented.find_next(u)) {
    bytes += layers.nodes[u]->activation_sum();
  }
  return bytes;
}

/// Returns down-sets reached from the first source by adding a reader with all its ancestors. Empty if there are more
/// than `most`.
std::vector<Bits> reachable(const Layers& layers, uint32_t most) {
  const size_t n = layers.nodes.size();
  Bits first(n);
  first.set(layers.source);
  std::map<Bits, uint32_t> known{{first, 0}};
  std::deque<Bits> queue{first};
  while (!queue.empty()) {
    const Bits set = std::move(queue.front());
    queue.pop_front();
    for (size_t u = set.find_first(); u != Bits::npos; u = set.find_next(u)) {
      for (const uint32_t reader : layers.out[u]) {
        if (set.test(reader)) continue;
        Bits next = set | layers.ancestors[reader];
        next.set(reader);
        if (!known.emplace(next, 0).second) continue;
        if (known.size() > most) return {};
        queue.push_back(std::move(next));
      }
    }
  }
  std::vector<Bits> sets;
  for (const auto& [set, unused] : known) sets.push_back(set);
  return sets;
}

}  // namespace

std::vector<char> optimized_layers(const PipedreamProfile& profile) {
  const size_t n = profile.nodes.size();
  std::vector<uint32_t> in(n, 0), out(n, 0);
  for (const auto& [from, to] : profile.edges) {
    ++out[from];
    ++in[to];
  }
  std::vector<char> keep(n, 1);
  for (size_t i = 0; i < n; ++i) {
    const std::string& text = profile.nodes[i].description;
    if ((in[i] == 0 && text.starts_with("Input")) || (out[i] == 0 && text.starts_with("__getitem__"))) keep[i] = 0;
  }
  return keep;
}

Result<CutStates> cut_states(const PipedreamProfile& profile, uint32_t most_states) {
  RANNC_ASSIGN(const Layers layers, layers_of(profile));
  const size_t n = layers.nodes.size();
  std::vector<Bits> sets = reachable(layers, most_states);
  CutStates states;
  states.complete = !sets.empty();
  if (sets.empty()) {
    Bits prefix(n);
    for (size_t u = 0; u < n; ++u) {
      prefix.set(u);
      sets.push_back(prefix);
    }
  } else if (!std::any_of(sets.begin(), sets.end(), [](const Bits& set) { return set.all(); })) {
    Bits all(n);
    all.set();
    sets.push_back(all);
  }
  std::stable_sort(sets.begin(), sets.end(), [](const Bits& a, const Bits& b) { return a.count() < b.count(); });
  states.before.resize(sets.size());
  for (uint32_t i = 0; i < sets.size(); ++i) {
    double compute = 0, parameters = 0;
    for (size_t u = sets[i].find_first(); u != Bits::npos; u = sets[i].find_next(u)) {
      compute += (layers.nodes[u]->forward_ms + layers.nodes[u]->backward_ms) / 1000;
      parameters += layers.nodes[u]->parameter_bytes;
    }
    states.compute_s.push_back(compute);
    states.parameter_bytes.push_back(parameters);
    states.output_bytes.push_back(output_of(layers, sets[i]));
    for (uint32_t k = 0; k < i; ++k) {
      if (!states.complete || sets[k].is_proper_subset_of(sets[i])) states.before[i].push_back(k);
    }
  }
  return states;
}

CutStates chain_states(const StageProblem& problem, uint64_t samples) {
  const TimeTable& table = problem.times[problem.cluster.devices.front().kind];
  const TimeTable::Blend blend = table.blend(samples);
  const RangeCosts ranges(problem);
  CutStates states;
  double compute = 0;
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    const auto at = [&](const auto& rows) {
      return blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
    };
    compute += (at(table.forward) + at(table.backward)) * 1e-9;
    states.compute_s.push_back(compute);
    states.parameter_bytes.push_back(ranges.parameters(0, b + 1));
    states.output_bytes.push_back(ranges.sent(0, b + 1).at(static_cast<double>(samples)));
    states.before.emplace_back();
    for (uint32_t k = 0; k < b; ++k) states.before.back().push_back(k);
  }
  return states;
}

}  // namespace rannc::partition
