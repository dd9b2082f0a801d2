// Improves the cut between two neighbouring blocks by maximum flow.
//
//   1 the region: nodes of both blocks nearest the cut, breadth first, up to the reach; the rest is source and sink
//   2 the network: a value costs if its producer, or one of its readers, is separated from other readers; an uncuttable
//     edge leads from a reader to its producer
//   3 a minimum cut; if it breaks the limits, pierce and repeat until it meets them or costs as much as before
//   4 move the nodes that changed sides
// Exact for the two blocks: nodes elsewhere pay the same either way. O(region * augmenting phases) a pair.
#include "partition/blocks/pair_flow.h"

#include <algorithm>
#include <numeric>

#include "ir/base/flow_network.h"

namespace rannc::partition {

using FlowNetwork = ir::FlowNetwork<double>;
namespace {

constexpr uint32_t kSource = 0, kSink = 1, kFirstInner = 2, kElsewhere = UINT32_MAX;
constexpr uint32_t kMaxPiercings = 8;
constexpr double kNarrowing = 4;  // of the reach if no cheaper cut was found
constexpr uint32_t kRounds = 2;

class PairFlow {
 public:
  PairFlow(const LevelGraph& graph, BlockState& state, const FlowLimits& limits, const std::function<void()>& moved)
      : graph_(graph),
        state_(state),
        limits_(limits),
        moved_(moved),
        place_(graph.nodes(), kElsewhere),
        net_seen_(graph.nets(), 0) {}

  Refined run() {
    Refined total;
    std::vector<bool> active(state_.blocks(), true);
    for (uint32_t round = 0; round < kRounds; ++round) {
      index_members();
      std::vector<bool> changed(state_.blocks(), false);
      for (uint32_t b = 0; b + 1 < state_.blocks(); ++b) {
        if (!(active[b] || active[b + 1] || changed[b]) || steps() > limits_.steps) continue;
        const double gain = improve(b);
        total.gain += gain;
        if (gain > 0) changed[b] = changed[b + 1] = true;
      }
      active.swap(changed);
    }
    total.evaluations = steps();
    return total;
  }

 private:
  uint64_t steps() const { return scanned_ + network_.steps(); }

  void index_members() {
    members_.offsets.assign(state_.blocks() + 1, 0);
    members_.items.resize(graph_.nodes());
    for (uint32_t v = 0; v < graph_.nodes(); ++v) ++members_.offsets[state_.block(v) + 1];
    std::partial_sum(members_.offsets.begin(), members_.offsets.end(), members_.offsets.begin());
    std::vector<uint32_t> next(members_.offsets.begin(), members_.offsets.end() - 1);
    for (uint32_t v = 0; v < graph_.nodes(); ++v) members_.items[next[state_.block(v)]++] = v;
  }

  /// Runs steps 1 to 4 for blocks `low` and `low` + 1, closer to the cut each time until there is a gain. Returns the
  /// gain.
  double improve(uint32_t low) {
    low_ = low;
    const double node = (state_.work(low) + state_.work(low + 1)) / (state_.size(low) + state_.size(low + 1));
    for (double reach = limits_.reach; reach >= node; reach /= kNarrowing) {
      const double gain = improve(reach, reach);
      if (gain > 0) return gain;
      if (node <= 0) break;  // without work, all nodes are within any reach
    }
    return 0;
  }

  /// The same with limits on the work of the lower and of the upper block that may change sides.
  double improve(double low_reach, double high_reach) {
    double gain = 0;
    if (collect_region(low_reach, high_reach)) {
      build_network();
      std::vector<bool> side = solve(gain);
      if (gain > 0) apply(side);
    }
    for (uint32_t v : region_) place_[v] = kElsewhere;
    return gain;
  }

  bool in_pair(uint32_t block) const { return block == low_ || block == low_ + 1; }

  /// Calls f(net) once for every net of `node` not seen since the stamp was raised.
  template <typename F>
  void for_new_nets(uint32_t node, F f) {
    const auto once = [&](uint32_t e) {
      if (net_seen_[e] == stamp_) return;
      net_seen_[e] = stamp_;
      scanned_ += graph_.pins.row(e).size();
      f(e);
    };
    for (uint32_t e : graph_.inputs.row(node)) once(e);
    for (uint32_t e : graph_.outputs(node)) once(e);
  }

  /// Fills `region_`: nodes of the lower block from far to near, then of the upper block from near to far. Returns
  /// false if no value passes between the blocks.
  bool collect_region(double low_reach, double high_reach) {
    std::vector<uint32_t> sides[2];
    ++stamp_;
    for (uint32_t i = members_.offsets[low_]; i < members_.offsets[low_ + 1]; ++i) {
      for_new_nets(members_.items[i], [&](uint32_t e) { add_cut_pins(e, sides); });
    }
    region_.clear();
    if (sides[0].empty() && sides[1].empty()) return false;
    grow(low_, sides[0], low_reach);
    grow(low_ + 1, sides[1], high_reach);
    region_.assign(sides[0].rbegin(), sides[0].rend());
    region_.insert(region_.end(), sides[1].begin(), sides[1].end());
    for (uint32_t i = 0; i < region_.size(); ++i) place_[region_[i]] = kFirstInner + i;
    return !region_.empty();
  }

  void add_cut_pins(uint32_t net, std::vector<uint32_t> (&sides)[2]) {
    bool low = false, high = false;
    for (uint32_t pin : graph_.pins.row(net)) {
      low |= state_.block(pin) == low_;
      high |= state_.block(pin) == low_ + 1;
    }
    if (!low || !high) return;
    for (uint32_t pin : graph_.pins.row(net)) {
      const uint32_t block = state_.block(pin);
      if (!in_pair(block) || place_[pin] != kElsewhere) continue;
      place_[pin] = kFirstInner;
      sides[block - low_].push_back(pin);
    }
  }

  /// Breadth first from the pins at the cut until the reach is used up. One node of the block stays out.
  void grow(uint32_t block, std::vector<uint32_t>& side, double reach) {
    double work = 0;
    size_t kept = 0;
    ++stamp_;
    for (; kept < side.size() && kept + 1 < state_.size(block); ++kept) {
      work += graph_.work[side[kept]];
      if (work > reach) break;
      for_new_nets(side[kept], [&](uint32_t e) {
        for (uint32_t pin : graph_.pins.row(e)) {
          if (state_.block(pin) != block || place_[pin] != kElsewhere) continue;
          place_[pin] = kFirstInner;
          side.push_back(pin);
        }
      });
    }
    for (size_t i = kept; i < side.size(); ++i) place_[side[i]] = kElsewhere;
    side.resize(kept);
  }

  /// Returns the network node that represents a graph node.
  uint32_t inner(uint32_t node) const {
    if (place_[node] != kElsewhere) return place_[node];
    const uint32_t block = state_.block(node);
    return block == low_ ? kSource : block == low_ + 1 ? kSink : kElsewhere;
  }

  void build_network() {
    network_.reset(kFirstInner + static_cast<uint32_t>(region_.size()));
    paid_ = 0;
    ++stamp_;
    for (uint32_t v : region_) {
      for_new_nets(v, [&](uint32_t e) {
        if (in_pair(state_.home(e))) {
          add_value(e);
        } else {
          add_received_value(e);
        }
      });
    }
  }

  struct Fixed {
    bool below = false, above = false;
  };
  /// Fills `readers_` with the places of the readers that may change sides, and determines where the others are.
  Fixed collect_readers(uint32_t e) {
    Fixed fixed;
    readers_.clear();
    for (uint32_t reader : graph_.readers(e)) {
      const uint32_t to = inner(reader);
      fixed.below |= to == kSource;
      fixed.above |= to == kSink;
      if (to != kElsewhere && to >= kFirstInner) readers_.push_back(to);
    }
    return fixed;
  }

  /// A value produced in the pair costs if the producer is below and a reader above.
  void add_value(uint32_t e) {
    const uint32_t from = inner(graph_.producer(e));
    const double cost = graph_.cost[e];
    const auto [fixed_below, fixed_above] = collect_readers(e);
    if (fixed_below && from >= kFirstInner) network_.add_edge(kSource, from, FlowNetwork::kUncuttable);
    if (from == kSource && fixed_above) return;
    if (state_.home(e) == low_ && reads_in(e, low_ + 1)) paid_ += cost;
    if (from == kSink) {
      for (uint32_t r : readers_) network_.add_edge(r, kSink, FlowNetwork::kUncuttable);
      return;
    }
    const double back = from == kSource ? 0 : FlowNetwork::kUncuttable;
    if (!fixed_above && readers_.size() == 1) return network_.add_edge(from, readers_[0], cost, back);
    uint32_t net = kSink;
    if (!fixed_above) net = network_.add_node();
    if (fixed_above || !readers_.empty()) network_.add_edge(from, net, cost);
    for (uint32_t r : readers_) {
      if (net != kSink) network_.add_edge(net, r, FlowNetwork::kUncuttable);
      if (back > 0) network_.add_edge(r, from, FlowNetwork::kUncuttable);
    }
  }

  bool reads_in(uint32_t e, uint32_t block) const {
    const auto readers = graph_.readers(e);
    return std::any_of(readers.begin(), readers.end(), [&](uint32_t r) { return state_.block(r) == block; });
  }

  /// A value from an earlier block costs once more if it has readers on both sides.
  void add_received_value(uint32_t e) {
    const auto [fixed_below, fixed_above] = collect_readers(e);
    if (readers_.size() + fixed_below + fixed_above < 2 || (fixed_below && fixed_above)) return;
    if (reads_in(e, low_) && reads_in(e, low_ + 1)) paid_ += graph_.cost[e];
    const uint32_t some = fixed_below ? kSource : network_.add_node();  // below where any reader is
    const uint32_t all = fixed_above ? kSink : network_.add_node();     // below where all readers are
    network_.add_edge(some, all, graph_.cost[e]);
    for (uint32_t r : readers_) {
      if (!fixed_below) network_.add_edge(r, some, FlowNetwork::kUncuttable);
      if (!fixed_above) network_.add_edge(all, r, FlowNetwork::kUncuttable);
    }
  }

  /// Returns the sides of the network's nodes (true: below) and the gain; without a gain nothing cheaper was found.
  std::vector<bool> solve(double& gain) {
    const double tolerance = 1e-10 * paid_, least = 1e-6 * paid_;
    double flow = 0;
    for (uint32_t i = 0; i <= kMaxPiercings; ++i) {
      flow += network_.min_cut(kSource, kSink, tolerance, paid_ - flow);
      if (flow >= paid_ - least) return {};
      const std::vector<bool> least_side = network_.source_side(kSource, tolerance);
      const std::vector<bool> most_side = network_.not_sink_side(kSink, tolerance);
      for (const std::vector<bool>* side : {&least_side, &most_side}) {
        if (!keeps_limits(*side)) continue;
        gain = paid_ - flow;
        return *side;
      }
      if (!pierce(least_side, most_side)) return {};
    }
    return {};
  }

  double work_below(const std::vector<bool>& side) const {
    double work = state_.work(low_);
    for (uint32_t i = 0; i < region_.size(); ++i) {
      const bool was_below = state_.block(region_[i]) == low_;
      if (side[kFirstInner + i] != was_below) work += was_below ? -graph_.work[region_[i]] : graph_.work[region_[i]];
    }
    return work;
  }

  bool keeps_limits(const std::vector<bool>& side) const {
    const double work = work_below(side), both = state_.work(low_) + state_.work(low_ + 1);
    if (work > limits_.work || both - work > limits_.work) return false;
    uint64_t up = 0, down = 0;
    for (uint32_t i = 0; i < region_.size(); ++i) {
      const bool was_below = state_.block(region_[i]) == low_;
      if (side[kFirstInner + i] != was_below) (was_below ? up : down) += graph_.memory[region_[i]];
    }
    return state_.memory(low_) - std::min(state_.memory(low_), up) + down <= limits_.memory &&
           state_.memory(low_ + 1) - std::min(state_.memory(low_ + 1), down) + up <= limits_.memory;
  }

  /// Moves half of the missing work to the side that is too light. Returns false if the violation is a different one.
  bool pierce(const std::vector<bool>& least_side, const std::vector<bool>& most_side) {
    const double both = state_.work(low_) + state_.work(low_ + 1), lightest = both - limits_.work;
    const double least = work_below(least_side), most = work_below(most_side);
    if (least < lightest) return join(least_side, most_side, (lightest - least + limits_.work - least) / 4, kSource);
    if (most > limits_.work) return join(most_side, least_side, (most - limits_.work + most - lightest) / 4, kSink);
    return false;
  }

  /// `side` contains the nodes that `terminal` reaches (source) or does not reach (sink). Nodes on which the smallest
  /// and the largest minimum cut differ come first, because they cost nothing.
  bool join(const std::vector<bool>& side, const std::vector<bool>& other, double work, uint32_t terminal) {
    const bool below = terminal == kSource;
    bool any = false;
    for (bool free : {true, false}) {
      for (size_t k = 0; k < region_.size(); ++k) {
        const size_t i = kFirstInner + (below ? k : region_.size() - 1 - k);
        if (side[i] == below || (other[i] == below) != free) continue;
        if (any && work <= 0) return true;
        below ? network_.add_edge(kSource, static_cast<uint32_t>(i), FlowNetwork::kUncuttable)
              : network_.add_edge(static_cast<uint32_t>(i), kSink, FlowNetwork::kUncuttable);
        work -= graph_.work[region_[i - kFirstInner]];
        any = true;
      }
    }
    return any;
  }

  /// Moves readers up before producers, and producers down before readers.
  void apply(const std::vector<bool>& side) {
    std::vector<uint32_t> nodes = region_;
    std::sort(nodes.begin(), nodes.end());
    auto move = [&](uint32_t v, uint32_t target) {
      state_.move(v, target);
      if (moved_) moved_();
    };
    for (size_t i = nodes.size(); i-- > 0;) {
      if (!side[place_[nodes[i]]] && state_.block(nodes[i]) == low_) move(nodes[i], low_ + 1);
    }
    for (uint32_t v : nodes) {
      if (side[place_[v]] && state_.block(v) != low_) move(v, low_);
    }
  }

  const LevelGraph& graph_;
  BlockState& state_;
  const FlowLimits& limits_;
  const std::function<void()>& moved_;
  Csr members_;                  // per block: its nodes at the start of the round
  std::vector<uint32_t> place_;  // per node: place in the network
  std::vector<uint32_t> net_seen_;
  std::vector<uint32_t> region_, readers_;
  FlowNetwork network_;
  uint32_t stamp_ = 0;
  uint32_t low_ = 0;
  double paid_ = 0;  // current cost of the cut in the region
  uint64_t scanned_ = 0;
};

}  // namespace

Refined refine_by_flow(const LevelGraph& graph, BlockState& state, const FlowLimits& limits,
                       const std::function<void()>& moved) {
  return PairFlow(graph, state, limits, moved).run();
}

}  // namespace rannc::partition
