#include "partition/reference/exact_period.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>
#include <utility>

#include "ir/base/diagnostic.h"
#include "partition/reference/least_ratio_cycle.h"

namespace rannc::partition {
namespace {

constexpr uint8_t kIdle = 0xff;
constexpr uint32_t kMostLayers = 8, kMostDevices = 8, kMostNumber = 15;

/// Passes are numbered in the order of a batch: F of layer 0, 1, …, then B of the last layer, …, 0.
struct State {
  std::array<uint8_t, 2 * kMostLayers> waiting{};  ///< batches that may start this pass; unused for the first
  std::array<uint8_t, kMostDevices> running{};     ///< pass of each device, or `kIdle`
  std::array<uint8_t, kMostDevices> left{};        ///< time until it ends

  bool operator==(const State&) const = default;
};

struct StateHash {
  size_t operator()(const State& state) const {
    uint64_t hash = 14695981039346656037ULL;
    const auto add = [&](const auto& bytes) {
      for (const uint8_t byte : bytes) hash = (hash ^ byte) * 1099511628211ULL;
    };
    add(state.waiting);
    add(state.running);
    add(state.left);
    return hash;
  }
};

/// Allocation of layers to devices, with the most activations that each layer may hold.
struct Allocation {
  std::vector<uint32_t> device_of, most;
};

/// The states of an allocation and the ways between them.
class StateGraph {
 public:
  StateGraph(const PeriodProblem& problem, const Allocation& allocation)
      : problem_(problem),
        allocation_(allocation),
        layers_(static_cast<uint32_t>(problem.forward.size())),
        free_(problem.devices, problem.memory) {
    for (uint32_t l = 0; l < layers_; ++l) free_[device(l)] -= problem.weights[l];
    State empty;
    empty.running.fill(kIdle);
    add(empty);
  }

  /// Expands all states that are reachable from the empty one; false if there are more than `limit`.
  bool expand_all(uint64_t limit) {
    for (size_t v = 0; v < states_.size(); ++v) {
      if (states_.size() > limit) return false;
      expand(v, [&](const State&, const RatioGraph::Edge& edge) { graph_.edges.push_back(edge); });
      graph_.first.push_back(graph_.edges.size());
    }
    return true;
  }

  const RatioGraph& graph() const { return graph_; }

  /// The passes that start along a cycle.
  std::vector<PatternPass> passes_of(const RatioCycle& cycle) {
    // Batches are counted from the one whose last pass starts first.
    std::vector<uint32_t> next(size_t{2} * layers_, 0);
    for (uint32_t pass = 2 * layers_ - 1; pass-- > 0;)
      next[pass] = next[pass + 1] + states_[cycle.nodes[0]].waiting[pass + 1] + runs(states_[cycle.nodes[0]], pass);
    std::vector<PatternPass> passes;
    uint32_t now = 0;
    for (size_t i = 0; i < cycle.nodes.size(); ++i) {
      const uint32_t to = cycle.nodes[(i + 1) % cycle.nodes.size()];
      const std::pair<State, uint8_t> way = way_between(cycle.nodes[i], to);
      for (uint32_t d = 0; d < problem_.devices; ++d) {
        const uint8_t pass = way.first.running[d];
        if (pass == kIdle || states_[cycle.nodes[i]].running[d] != kIdle) continue;
        passes.push_back({layer_of(pass), pass >= layers_, now, next[pass]++});
      }
      now += way.second;
    }
    return passes;
  }

 private:
  /// `started`: the state before time passes.
  using Visit = std::function<void(const State& started, const RatioGraph::Edge&)>;

  uint32_t device(uint32_t layer) const { return allocation_.device_of[layer]; }
  uint32_t layer_of(uint32_t pass) const { return pass < layers_ ? pass : 2 * layers_ - 1 - pass; }
  uint32_t duration(uint32_t pass) const {
    return pass < layers_ ? problem_.forward[pass] : problem_.backward[layer_of(pass)];
  }
  bool runs(const State& state, uint32_t pass) const { return state.running[device(layer_of(pass))] == pass; }

  /// Batches whose forward pass of the layer has started and whose backward pass has not ended.
  uint32_t held(const State& state, uint32_t layer) const {
    uint32_t count = 0;
    for (uint32_t pass = layer; pass < 2 * layers_ - layer; ++pass)
      count += runs(state, pass) + (pass > layer ? state.waiting[pass] : 0);
    return count;
  }

  bool may_start(const State& state, uint32_t pass) const {
    if (pass > 0 && state.waiting[pass] == 0) return false;
    return pass >= layers_ || (held(state, pass) < allocation_.most[pass] && fits(state, pass));
  }

  /// Whether the device can hold one more activation of the layer.
  bool fits(const State& state, uint32_t layer) const {
    if (problem_.peak == PeriodProblem::Peak::kOfLayers) return true;  // by `Allocation::most`
    uint32_t bytes = problem_.activations[layer];
    for (uint32_t l = 0; l < layers_; ++l) {
      if (device(l) == device(layer)) bytes += held(state, l) * problem_.activations[l];
    }
    return bytes <= free_[device(layer)];
  }

  uint32_t add(const State& state) {
    const auto [at, added] = index_.emplace(state, static_cast<uint32_t>(states_.size()));
    if (added) states_.push_back(state);
    return at->second;
  }

  /// Visits every way to start passes on idle devices, followed by the time until the next pass ends.
  void expand(size_t v, const Visit& visit) {
    const State state = states_[v];  // a copy, because states are added
    start_passes(state, 0, visit);
  }

  void start_passes(const State& state, uint32_t d, const Visit& visit) {
    if (d == problem_.devices) return advance(state, visit);
    start_passes(state, d + 1, visit);
    if (state.running[d] != kIdle) return;
    for (uint32_t pass = 0; pass < 2 * layers_; ++pass) {
      if (device(layer_of(pass)) != d || !may_start(state, pass)) continue;
      State started = state;
      if (pass > 0) --started.waiting[pass];
      started.running[d] = static_cast<uint8_t>(pass);
      started.left[d] = static_cast<uint8_t>(duration(pass));
      start_passes(started, d + 1, visit);
    }
  }

  void advance(const State& started, const Visit& visit) {
    uint8_t time = kIdle;
    for (uint32_t d = 0; d < problem_.devices; ++d) {
      if (started.running[d] != kIdle) time = std::min(time, started.left[d]);
    }
    if (time == kIdle) return;  // nothing runs
    State next = started;
    uint8_t batches = 0;
    for (uint32_t d = 0; d < problem_.devices; ++d) {
      if (next.running[d] == kIdle) continue;
      next.left[d] = static_cast<uint8_t>(next.left[d] - time);
      if (next.left[d] > 0) continue;
      const uint32_t pass = std::exchange(next.running[d], kIdle);
      if (pass + 1 < 2 * layers_) ++next.waiting[pass + 1];
      if (pass + 1 == 2 * layers_) ++batches;
    }
    visit(started, {add(next), time, batches});
  }

  /// The state in which time begins to pass on the way between two states, and that time. Two states have one way, as
  /// the passes that both have processed tell which have started.
  std::pair<State, uint8_t> way_between(uint32_t from, uint32_t to) {
    std::pair<State, uint8_t> way;
    expand(from, [&](const State& started, const RatioGraph::Edge& edge) {
      if (edge.to == to) way = {started, edge.time};
    });
    return way;
  }

  const PeriodProblem& problem_;
  const Allocation& allocation_;
  const uint32_t layers_;
  std::vector<uint32_t> free_;  // memory of each device beside the weights of its layers
  std::vector<State> states_;
  std::unordered_map<State, uint32_t, StateHash> index_;
  RatioGraph graph_;
};

class ExactPeriodSearch {
 public:
  ExactPeriodSearch(const PeriodProblem& problem, uint64_t states)
      : problem_(problem), states_(states), layers_(static_cast<uint32_t>(problem.forward.size())) {}

  std::optional<ExactPeriod> run() {
    allocation_.device_of.assign(layers_, 0);
    allocation_.most.assign(layers_, 0);
    allocate(0, 0);
    std::stable_sort(allocations_.begin(), allocations_.end(),
                     [&](const auto& a, const auto& b) { return largest_load(a) < largest_load(b); });
    for (const std::vector<uint32_t>& device_of : allocations_) {
      if (best_.exists() && largest_load(device_of) * best_.batches >= best_.time) break;
      allocation_.device_of = device_of;
      free_.assign(problem_.devices, problem_.memory);
      for (uint32_t l = 0; l < layers_; ++l) free_[device_of[l]] -= problem_.weights[l];
      limit_layers(0);
      if (!complete_) return std::nullopt;
    }
    return best_;
  }

 private:
  /// Collects all ways to place the layers from `layer` on. Devices are alike, so they are used in order.
  void allocate(uint32_t layer, uint32_t used) {
    if (layer == layers_) return allocations_.push_back(allocation_.device_of);
    const bool contiguous = problem_.allocations == PeriodProblem::Allocations::kContiguous;
    for (uint32_t d = contiguous && used > 0 ? used - 1 : 0; d < std::min(used + 1, problem_.devices); ++d) {
      allocation_.device_of[layer] = d;
      // A batch needs one activation of each layer.
      uint64_t bytes = 0;
      for (uint32_t l = 0; l <= layer; ++l) {
        if (allocation_.device_of[l] == d) bytes += uint64_t{problem_.weights[l]} + problem_.activations[l];
      }
      if (bytes <= problem_.memory) allocate(layer + 1, std::max(used, d + 1));
    }
  }

  uint32_t largest_load(const std::vector<uint32_t>& device_of) const {
    std::vector<uint32_t> load(problem_.devices, 0);
    for (uint32_t l = 0; l < layers_; ++l) load[device_of[l]] += problem_.forward[l] + problem_.backward[l];
    return *std::max_element(load.begin(), load.end());
  }

  /// Tries all limits on the activations of the layers from `layer` on. NCA never grows with the layer (Lemma 1).
  void limit_layers(uint32_t layer) {
    if (layer == layers_) return may_be_raised() ? void() : solve();
    uint32_t& most = allocation_.most[layer];
    const uint32_t before = limit_before(layer);
    const uint32_t bytes = problem_.activations[layer];
    uint32_t& left = free_[allocation_.device_of[layer]];
    if (problem_.peak == PeriodProblem::Peak::kOfDevice || bytes == 0) {
      most = before;
      return limit_layers(layer + 1);
    }
    for (most = std::min(before, left / bytes); most > 0; --most) {
      left -= most * bytes;
      limit_layers(layer + 1);
      left += most * bytes;
    }
  }

  uint32_t limit_before(uint32_t layer) const {
    return layer == 0 ? problem_.most_in_flight : allocation_.most[layer - 1];
  }

  /// Whether memory allows one more activation of a layer, so that other limits allow all that these do.
  bool may_be_raised() const {
    if (problem_.peak == PeriodProblem::Peak::kOfDevice) return false;
    for (uint32_t l = 0; l < layers_; ++l) {
      const uint32_t bytes = problem_.activations[l];
      if (bytes > 0 && allocation_.most[l] < limit_before(l) && bytes <= free_[allocation_.device_of[l]]) return true;
    }
    return false;
  }

  /// Replaces the best solution if the allocation has a better one.
  void solve() {
    if (!complete_) return;
    StateGraph graph(problem_, allocation_);
    complete_ = graph.expand_all(states_);
    if (!complete_) return;
    const RatioCycle cycle = least_ratio_cycle(graph.graph());
    if (cycle.nodes.empty() || (best_.exists() && cycle.time * best_.batches >= best_.time * cycle.batches)) return;
    best_ = {cycle.time, cycle.batches, allocation_.device_of, graph.passes_of(cycle)};
  }

  const PeriodProblem& problem_;
  const uint64_t states_;
  const uint32_t layers_;
  Allocation allocation_;
  std::vector<std::vector<uint32_t>> allocations_;
  std::vector<uint32_t> free_;  // memory of each device that weights and layers with limits leave
  ExactPeriod best_;
  bool complete_ = true;
};

void check(const PeriodProblem& problem) {
  const size_t layers = problem.forward.size();
  const auto lies_in = [](uint32_t low, uint32_t value) { return value >= low && value <= kMostNumber; };
  RANNC_CHECK(layers >= 1 && layers <= kMostLayers && problem.backward.size() == layers &&
              problem.weights.size() == layers && problem.activations.size() == layers)
      << layers << " layers";
  RANNC_CHECK(problem.devices >= 1 && problem.devices <= kMostDevices) << problem.devices << " devices";
  RANNC_CHECK(lies_in(1, problem.most_in_flight)) << problem.most_in_flight << " batches";
  for (size_t l = 0; l < layers; ++l)
    RANNC_CHECK(lies_in(1, problem.forward[l]) && lies_in(1, problem.backward[l])) << "time of layer " << l;
}

}  // namespace

std::optional<ExactPeriod> exact_period(const PeriodProblem& problem, uint64_t states) {
  check(problem);
  return ExactPeriodSearch(problem, states).run();
}

}  // namespace rannc::partition
