#include "partition/schedule/found/list_rows.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "partition/schedule/found/lane_memory.h"

namespace rannc::partition::found {
namespace {

using ir::ActionKind;

/// Why an oldest micro-batch can always be completed. A lane holds H bytes, and the passes of its oldest incomplete
/// micro-batch that are still to come need E more. The invariant is H + E <= limit. Completing that micro-batch frees
/// all that it holds, A, and A is at least what the next one still needs. So H + E - A + E' <= limit, and so on by
/// induction over micro-batches.
class Lister {
 public:
  Lister(const RowProblem& problem, const Policy& policy)
      : problem_(problem),
        policy_(policy),
        lanes_(problem.lanes.size(), LaneState(problem)),
        slots_(problem.slots.size()),
        arrivals_(size_t{problem.feeds} * problem.micro_batches, kNever),
        ports_(problem) {
    for (uint32_t l = 0; l < lanes_.size(); ++l) {
      lanes_[l].bytes.clear(l);
      for (const uint32_t s : problem.lanes[l].slots) lanes_[l].headroom = std::max(lanes_[l].headroom, headroom(s));
      wakes_.push({0, l});
    }
    rows_.rows.resize(lanes_.size());
  }

  ListedRows run() {
    while (!wakes_.empty()) {
      const auto [time, lane] = wakes_.top();
      wakes_.pop();
      if (time < lanes_[lane].clock) continue;
      step(lane, time);
    }
    rows_.complete = std::all_of(slots_.begin(), slots_.end(),
                                 [&](const SlotState& slot) { return slot.weight == problem_.micro_batches; });
    return std::move(rows_);
  }

 private:
  struct LaneState {
    explicit LaneState(const RowProblem& problem) : bytes(problem) {}
    double clock = 0;
    LaneBytes bytes;
    int64_t headroom = 0;  ///< most bytes of a backward pass above those before its R
    bool forward_last = false;
  };
  struct SlotState {
    uint32_t forward = 0, gradient = 0, weight = 0;  ///< next micro-batches
    bool rebuilt = false;                            ///< R of `gradient` is done
  };
  struct Choice {
    Letter letter;
    int rank = 0;  ///< smaller ranks come first
    double target = 0;
  };

  int64_t headroom(uint32_t s) const {
    int64_t most = 0;
    for (const SlotBytes& bytes : problem_.slots[s].bytes) {
      int64_t peak = 0, live = problem_.slots[s].recompute ? bytes.saved - bytes.kept : 0;
      if (live != 0) peak = bytes.rise[index_of(ActionKind::kRecompute)];
      for (const ActionKind kind : gradient_kinds()) peak = std::max(peak, live + bytes.rise[index_of(kind)]);
      most = std::max({most, peak, live + problem_.slots[s].gradient_bytes - bytes.saved});
    }
    return most;
  }

  std::vector<ActionKind> gradient_kinds() const {
    if (problem_.parts == BackwardParts::kWhole) return {ActionKind::kBackward};
    return {ActionKind::kInputGradient, ActionKind::kWeightGradient};
  }
  ActionKind gradient_kind() const {
    return problem_.parts == BackwardParts::kWhole ? ActionKind::kBackward : ActionKind::kInputGradient;
  }

  double arrival(uint32_t s, uint32_t micro_batch, bool forward) const {
    double time = 0;
    for (const Feed& feed : forward ? problem_.slots[s].inputs : problem_.slots[s].gradients) {
      time = std::max(time, arrivals_[feed.id * problem_.micro_batches + micro_batch]);
    }
    return time;
  }

  /// Whether the pass of the next B or I must be preceded by an R.
  bool needs_rebuild(uint32_t lane, uint32_t s) const {
    using enum ir::RecomputedMicroBatches;
    const SlotState& slot = slots_[s];
    if (!problem_.slots[s].recompute || slot.rebuilt) return false;
    if (problem_.recomputed == kAll) return true;
    if (problem_.recomputed == kAllButLast) return slot.gradient + 1 < problem_.micro_batches;
    const Letter forward{ActionKind::kForward, static_cast<uint16_t>(s), slot.gradient};
    return rows_.rows[lane].empty() || rows_.rows[lane].back() != forward;
  }

  /// Whether the forward pass of the letter's micro-batch keeps only what an R needs.
  bool will_rebuild(const Letter& letter) const {
    const bool never = problem_.recomputed == ir::RecomputedMicroBatches::kAllButLast &&
                       letter.micro_batch + 1 == problem_.micro_batches;
    return problem_.slots[letter.slot].recompute && !never;
  }

  /// Bytes that the F of a B or I has saved after all, because it is directly followed by it, without an R.
  int64_t restored(const Letter& letter) const {
    if (!ir::computes_input_gradient(letter.kind) || !will_rebuild(letter) || slots_[letter.slot].rebuilt) return 0;
    const SlotBytes& bytes = problem_.slots[letter.slot].bytes[problem_.class_of[letter.micro_batch]];
    return bytes.saved - bytes.kept;
  }

  /// Bytes of the forward passes that the oldest incomplete micro-batch still needs, if `started` is started too.
  int64_t owed(uint32_t lane, uint32_t started) const {
    uint32_t oldest = problem_.micro_batches;
    for (const uint32_t s : problem_.lanes[lane].slots) oldest = std::min(oldest, slots_[s].weight);
    int64_t bytes = 0;
    for (const uint32_t s : problem_.lanes[lane].slots) {
      if (slots_[s].forward > oldest || (s == started && slots_[s].forward == oldest)) continue;
      const SlotBytes& own = problem_.slots[s].bytes[problem_.class_of[oldest]];
      bytes += problem_.slots[s].recompute ? own.kept : own.saved;
    }
    return bytes;
  }

  int64_t unborn_gradients(uint32_t lane) const {
    int64_t bytes = 0;
    for (const uint32_t s : problem_.lanes[lane].slots) {
      if (slots_[s].weight == 0) bytes += problem_.slots[s].gradient_bytes;
    }
    return bytes;
  }

  bool fits(uint32_t lane, const Letter& letter) const {
    const LaneState& state = lanes_[lane];
    const int64_t limit = problem_.lanes[lane].limit;
    if (limit == kNoLimit) return true;
    const LaneBytes::Use use = state.bytes.use(letter, will_rebuild(letter));
    if (use.most + restored(letter) > limit) return false;
    if (letter.kind == ActionKind::kInputGradient) return fits_weight(letter, use.after + restored(letter), limit);
    if (letter.kind != ActionKind::kForward) return true;
    return use.after + owed(lane, letter.slot) + state.headroom + unborn_gradients(lane) <= limit;
  }

  /// Whether the W of an I still fits after it.
  bool fits_weight(const Letter& input, int64_t live, int64_t limit) const {
    const Slot& slot = problem_.slots[input.slot];
    const SlotBytes& bytes = slot.bytes[problem_.class_of[input.micro_batch]];
    const int64_t born = slots_[input.slot].weight == 0 ? slot.gradient_bytes - bytes.saved - bytes.pending : 0;
    return live + std::max(bytes.rise[index_of(ActionKind::kWeightGradient)], born) <= limit;
  }

  double target(const Letter& letter) const {
    if (policy_.target.empty()) return letter.micro_batch;
    return policy_.target[target_cell(problem_, letter.slot, letter.kind, letter.micro_batch)];
  }

  int rank(uint32_t lane, bool forward) const {
    switch (policy_.first) {
      case Policy::First::kGradient:
        return forward ? 2 : 1;
      case Policy::First::kForward:
        return forward ? 1 : 2;
      case Policy::First::kAlternate:
        return forward == lanes_[lane].forward_last ? 2 : 1;
      default:
        return 1;
    }
  }

  /// What a lane may start, or when something arrives.
  struct Options {
    std::vector<Choice> now;
    double soonest = kNever;
    bool blocked = false;  ///< a pass is there, but has no room
  };

  void offer(Options& options, uint32_t lane, double time, double arrives, const Letter& letter, int rank) const {
    if (arrives == kNever) return;
    if (!fits(lane, letter)) {
      options.blocked |= arrives <= time;
    } else if (arrives > time) {
      options.soonest = std::min(options.soonest, arrives);
    } else {
      options.now.push_back({letter, rank, target(letter)});
    }
  }

  Options options_of(uint32_t lane, double time) const {
    Options options;
    for (const uint32_t s : problem_.lanes[lane].slots) {
      const SlotState& slot = slots_[s];
      const auto id = static_cast<uint16_t>(s);
      if (slot.gradient < slot.forward) {
        const bool rebuild = needs_rebuild(lane, s);
        Letter letter{rebuild ? ActionKind::kRecompute : gradient_kind(), id, slot.gradient};
        double arrives = arrival(s, slot.gradient, false);
        if (rebuild && arrives != kNever) arrives -= problem_.time(s, letter.kind, slot.gradient);
        offer(options, lane, time, arrives, letter, slot.rebuilt ? 0 : rank(lane, false));
      }
      if (slot.forward < problem_.micro_batches && slot.forward - slot.gradient < policy_.ahead[s]) {
        const Letter letter{ActionKind::kForward, id, slot.forward};
        offer(options, lane, time, arrival(s, slot.forward, true), letter, rank(lane, true));
      }
    }
    for (const uint32_t s : problem_.lanes[lane].slots) {
      const SlotState& slot = slots_[s];
      if (problem_.parts == BackwardParts::kWhole || slot.weight == slot.gradient) continue;
      const Letter letter{ActionKind::kWeightGradient, static_cast<uint16_t>(s), slot.weight};
      if (!fits(lane, letter)) continue;
      int rank = policy_.first == Policy::First::kTarget ? 1 : 3;
      if (options.blocked) rank = policy_.first == Policy::First::kGradient ? 2 : 1;
      if (slot.gradient - slot.weight > policy_.lag[s]) rank = -1;
      options.now.push_back({letter, rank, target(letter)});
    }
    return options;
  }

  void step(uint32_t lane, double time) {
    const Options options = options_of(lane, time);
    const auto best = std::min_element(options.now.begin(), options.now.end(), [](const Choice& a, const Choice& b) {
      // Of equal targets the later stage comes first: it is nearer to the end of its micro-batch.
      return std::make_tuple(a.rank, a.target, -int{a.letter.slot}) <
             std::make_tuple(b.rank, b.target, -int{b.letter.slot});
    });
    if (best == options.now.end()) {
      if (options.soonest < kNever) wakes_.push({options.soonest, lane});
      return;
    }
    const Letter letter = best->letter;
    const double length = problem_.time(letter.slot, letter.kind, letter.micro_batch);
    if (letter.kind == ActionKind::kWeightGradient && best->rank >= 0 &&
        options.soonest - time < policy_.patience * length) {
      wakes_.push({options.soonest, lane});
      return;
    }
    start(lane, time, letter);
  }

  void start(uint32_t lane, double time, const Letter& letter) {
    LaneState& state = lanes_[lane];
    SlotState& slot = slots_[letter.slot];
    state.bytes.grow(restored(letter));
    state.bytes.add(letter, will_rebuild(letter));
    rows_.rows[lane].push_back(letter);
    double end = time + problem_.time(letter.slot, letter.kind, letter.micro_batch);
    if (letter.kind == ActionKind::kForward) {
      if (letter.micro_batch == 0) end += problem_.slots[letter.slot].begin;
      ++slot.forward;
      state.forward_last = true;
      send(problem_.slots[letter.slot].readers, letter.micro_batch, true, end);
    } else if (letter.kind == ActionKind::kRecompute) {
      slot.rebuilt = true;
    } else if (letter.kind == ActionKind::kWeightGradient) {
      ++slot.weight;
    } else {
      ++slot.gradient;
      slot.rebuilt = false;
      slot.weight += letter.kind == ActionKind::kBackward;
      state.forward_last = false;
      send(problem_.slots[letter.slot].sources, letter.micro_batch, false, end);
    }
    state.clock = end;
    wakes_.push({end, lane});
  }

  /// Sends results at the end of a pass that starts now. Messages therefore reach ports in the order of these starts.
  void send(const std::vector<Reader>& readers, uint32_t micro_batch, bool forward, double end) {
    for (const Reader& reader : readers) {
      const Slot& slot = problem_.slots[reader.slot];
      const Feed& feed = (forward ? slot.inputs : slot.gradients)[reader.feed];
      arrivals_[feed.id * problem_.micro_batches + micro_batch] =
          ports_.send(feed, problem_.class_of[micro_batch], end);
      const double arrives = arrival(reader.slot, micro_batch, forward);
      if (arrives == kNever) continue;
      double time = arrives;
      if (!forward && slot.recompute) time -= problem_.time(reader.slot, ActionKind::kRecompute, micro_batch);
      wakes_.push({std::max(time, lanes_[slot.lane].clock), slot.lane});
      if (time < arrives) wakes_.push({std::max(arrives, lanes_[slot.lane].clock), slot.lane});
    }
  }

  const RowProblem& problem_;
  const Policy& policy_;
  std::vector<LaneState> lanes_;
  std::vector<SlotState> slots_;
  std::vector<double> arrivals_;  ///< by feed and micro-batch
  Ports ports_;
  using Wake = std::pair<double, uint32_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  ListedRows rows_;
};

}  // namespace

ListedRows list_rows(const RowProblem& problem, const Policy& policy) { return Lister(problem, policy).run(); }

}  // namespace rannc::partition::found
