// Fiduccia-Mattheyses refinement under the rank rule.
//
// After Fiduccia and Mattheyses (DAC 1982) with the legality rule of Moreira, Popp and Schulz (SEA 2017). Not optimal:
// a local search; nets of more than `kMaxUpdatedPins` pins do not refresh the gains of their pins.
#include "partition/blocks/refine.h"

#include <algorithm>
#include <optional>
#include <queue>

namespace rannc::partition {
namespace {

constexpr size_t kMaxUpdatedPins = 48;

struct Move {
  double gain = 0;
  uint32_t node = 0;
  uint32_t target = 0;
  uint32_t stamp = 0;  // of the node when the entry was made
};

struct WorseMove {
  bool operator()(const Move& a, const Move& b) const { return a.gain != b.gain ? a.gain < b.gain : a.node > b.node; }
};

class Pass {
 public:
  Pass(const LevelGraph& graph, BlockState& state, const RefineLimits& limits, const std::function<void()>& moved)
      : graph_(graph),
        state_(state),
        limits_(limits),
        moved_(moved),
        stamp_(graph.nodes(), 0),
        locked_(graph.nodes(), false) {
    for (uint32_t e = 0; e < graph.nets() && !large_nets_; ++e) large_nets_ = large(e);
  }

  double run() {
    enqueue_boundary();
    const size_t patience = 50 + graph_.nodes() / 50;
    double total = 0, best = 0;
    size_t best_length = 0;
    while (!queue_.empty() && done_.size() - best_length < patience) {
      const Move move = queue_.top();
      queue_.pop();
      if (locked_[move.node] || stamp_[move.node] != move.stamp || !fits(move.node, move.target)) continue;
      const std::optional<double> gain = gain_now(move);
      if (!gain) {
        enqueue(move.node);
        continue;
      }
      const uint32_t source = state_.block(move.node);
      apply(move.node, move.target);
      done_.push_back({*gain, move.node, source, 0});
      locked_[move.node] = true;
      total += *gain;
      if (total > best + 1e-9 * std::abs(best)) {
        best = total;
        best_length = done_.size();
      }
      refresh_neighbours(move.node);
    }
    while (done_.size() > best_length) {
      apply(done_.back().node, done_.back().target);
      done_.pop_back();
    }
    return best;
  }

  uint64_t evaluations() const { return evaluations_; }

 private:
  void apply(uint32_t node, uint32_t target) {
    state_.move(node, target);
    if (moved_) moved_();
  }

  double work_limit(uint32_t block) const {
    return limits_.last_work >= 0 && block + 1 == state_.blocks() ? limits_.last_work : limits_.work;
  }

  bool fits(uint32_t node, uint32_t target) const {
    return state_.size(state_.block(node)) > 1 && state_.work(target) + graph_.work[node] <= work_limit(target) &&
           graph_.memory[node] <= limits_.memory && state_.memory(target) <= limits_.memory - graph_.memory[node];
  }

  /// Pins of values that cross; any other node can only lose by moving, and enters when a neighbour has moved.
  void enqueue_boundary() {
    std::vector<bool> boundary(graph_.nodes(), false);
    for (uint32_t e = 0; e < graph_.nets(); ++e) {
      const auto pins = graph_.pins.row(e);
      const uint32_t home = state_.block(pins[0]);
      if (std::all_of(pins.begin() + 1, pins.end(), [&](uint32_t pin) { return state_.block(pin) == home; })) continue;
      for (uint32_t pin : pins) boundary[pin] = true;
    }
    for (uint32_t v = 0; v < graph_.nodes(); ++v) {
      if (boundary[v]) enqueue(v);
    }
  }

  /// The gain of an entry as things are; nothing where it is no longer that good or legal. Entries go stale without a
  /// new stamp only through large nets, whose pins are not refreshed.
  std::optional<double> gain_now(const Move& move) const {
    if (!large_nets_ || !has_large_net(move.node)) return move.gain;
    const EdgeMoves moves = state_.edge_moves(move.node);
    if (move.target == moves.window.low && moves.low_gain >= move.gain) return moves.low_gain;
    if (move.target == moves.window.high && moves.high_gain >= move.gain) return moves.high_gain;
    return std::nullopt;
  }

  bool large(uint32_t net) const { return graph_.pins.row(net).size() > kMaxUpdatedPins; }

  bool has_large_net(uint32_t node) const {
    const auto inputs = graph_.inputs.row(node), outputs = graph_.outputs.row(node);
    auto is_large = [this](uint32_t net) { return large(net); };
    return std::any_of(inputs.begin(), inputs.end(), is_large) || std::any_of(outputs.begin(), outputs.end(), is_large);
  }

  void enqueue(uint32_t node) {
    ++stamp_[node];
    ++evaluations_;
    const EdgeMoves moves = state_.edge_moves(node);
    if (moves.window.low == moves.window.high) return;
    const uint32_t source = state_.block(node);
    Move best{0, node, UINT32_MAX, stamp_[node]};
    auto consider = [&](uint32_t target, double gain) {
      if (target == source || !fits(node, target)) return;
      if (best.target == UINT32_MAX || gain > best.gain) {
        best.gain = gain;
        best.target = target;
      }
    };
    if (!graph_.inputs.row(node).empty()) consider(moves.window.low, moves.low_gain);
    if (!graph_.outputs.row(node).empty()) consider(moves.window.high, moves.high_gain);
    if (best.target != UINT32_MAX) queue_.push(best);
  }

  void refresh_neighbours(uint32_t node) {
    auto refresh = [&](uint32_t net) {
      if (large(net)) return;
      for (uint32_t pin : graph_.pins.row(net)) {
        if (!locked_[pin]) enqueue(pin);
      }
    };
    for (uint32_t e : graph_.inputs.row(node)) refresh(e);
    for (uint32_t e : graph_.outputs.row(node)) refresh(e);
  }

  const LevelGraph& graph_;
  BlockState& state_;
  const RefineLimits& limits_;
  const std::function<void()>& moved_;
  std::priority_queue<Move, std::vector<Move>, WorseMove> queue_;
  std::vector<uint32_t> stamp_;
  std::vector<bool> locked_;
  uint64_t evaluations_ = 0;
  bool large_nets_ = false;  // some net is not refreshed
  std::vector<Move> done_;   // `target` is where the node came from
};

}  // namespace

Refined refine(const LevelGraph& graph, BlockState& state, const RefineLimits& limits,
               const std::function<void()>& moved) {
  Refined total;
  for (uint32_t i = 0; i < limits.passes; ++i) {
    Pass pass(graph, state, limits, moved);
    const double gain = pass.run();
    total.gain += gain;
    total.evaluations += pass.evaluations();
    if (gain <= 0) break;
  }
  return total;
}

}  // namespace rannc::partition
