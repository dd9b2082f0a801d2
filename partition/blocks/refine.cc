// Implements Fiduccia-Mattheyses refinement under the rank rule.
//
// After Fiduccia and Mattheyses (DAC 1982) with the legality rule of Moreira, Popp and Schulz (SEA 2017). A local
// search, not optimal. Nets of more than `kMaxUpdatedPins` pins do not refresh the gains of their pins.
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
};

constexpr uint32_t kNone = UINT32_MAX;

/// The queued move of one node.
struct Queued {
  double gain = 0;
  uint32_t target = kNone;
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
        queued_(graph.nodes()),
        seen_(graph.nodes(), 0),
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
      Queued& queued = queued_[move.node];
      if (locked_[move.node] || queued.target != move.target || queued.gain != move.gain) continue;
      queued.target = kNone;
      if (!fits(move.node, move.target)) continue;
      const std::optional<double> gain = gain_now(move);
      if (!gain) {
        enqueue(move.node);
        continue;
      }
      const uint32_t source = state_.block(move.node);
      note_first_readers(move.node);
      apply(move.node, move.target);
      done_.push_back({*gain, move.node, source});
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

  /// Pins of crossing values. Any other node can only lose by moving; it is queued when a neighbour has moved.
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

  /// Returns the current gain of an entry, or nothing if the move is no longer as good or legal. Entries become stale
  /// without a new stamp only through large nets, whose pins are not refreshed.
  std::optional<double> gain_now(const Move& move) const {
    if (!large_nets_ || !has_large_net(move.node)) return move.gain;
    const EdgeMoves moves = state_.edge_moves(move.node);
    if (move.target == moves.window.low && moves.low_gain >= move.gain) return moves.low_gain;
    if (move.target == moves.window.high && moves.high_gain >= move.gain) return moves.high_gain;
    return std::nullopt;
  }

  bool large(uint32_t net) const { return graph_.pins.row(net).size() > kMaxUpdatedPins; }

  bool has_large_net(uint32_t node) const {
    for (uint32_t e : graph_.inputs.row(node)) {
      if (large(e)) return true;
    }
    for (uint32_t e : graph_.outputs(node)) {
      if (large(e)) return true;
    }
    return false;
  }

  void enqueue(uint32_t node) {
    ++evaluations_;
    const EdgeMoves moves = state_.edge_moves(node);
    const uint32_t source = state_.block(node);
    Queued best;
    auto consider = [&](uint32_t target, double gain) {
      if (target == source || !fits(node, target)) return;
      if (best.target == kNone || gain > best.gain) best = {gain, target};
    };
    if (moves.window.low < source && !graph_.inputs.row(node).empty()) consider(moves.window.low, moves.low_gain);
    if (moves.window.high > source && !graph_.outputs(node).empty()) consider(moves.window.high, moves.high_gain);
    if (best.target != kNone && (best.target != queued_[node].target || best.gain != queued_[node].gain)) {
      queue_.push({best.gain, node, best.target});
    }
    queued_[node] = best;
  }

  /// A moving reader affects the producer's moves only through the lowest block of the readers.
  void note_first_readers(uint32_t node) {
    first_readers_.clear();
    for (uint32_t e : graph_.inputs.row(node)) first_readers_.push_back(state_.first_reader(e));
  }

  void refresh_neighbours(uint32_t node) {
    auto refresh = [&](uint32_t pin) {
      if (locked_[pin] || seen_[pin] == done_.size()) return;
      seen_[pin] = static_cast<uint32_t>(done_.size());
      enqueue(pin);
    };
    size_t i = 0;
    for (uint32_t e : graph_.inputs.row(node)) {
      const bool same_first = state_.first_reader(e) == first_readers_[i++];
      if (large(e)) continue;
      if (!same_first) refresh(graph_.producer(e));
      for (uint32_t reader : graph_.readers(e)) refresh(reader);
    }
    for (uint32_t e : graph_.outputs(node)) {
      if (large(e)) continue;
      for (uint32_t reader : graph_.readers(e)) refresh(reader);
    }
  }

  const LevelGraph& graph_;
  BlockState& state_;
  const RefineLimits& limits_;
  const std::function<void()>& moved_;
  std::priority_queue<Move, std::vector<Move>, WorseMove> queue_;
  std::vector<Queued> queued_;           // per node; entries of the queue that differ are stale
  std::vector<uint32_t> seen_;           // per node: the move after which it was last priced
  std::vector<uint32_t> first_readers_;  // per input of the node that moves, before its move
  std::vector<bool> locked_;
  uint64_t evaluations_ = 0;
  bool large_nets_ = false;  // whether some net is not refreshed
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
