#include "partition/reference/exact_rows.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "partition/schedule/found/row_bound.h"

namespace rannc::partition {
namespace {

using found::index_of;
using found::kNever;
using found::RowProblem;
using found::Slot;
using found::SlotBytes;
using ir::ActionKind;

constexpr uint8_t kFree = 0xff;

/// Passes done, by slot, and by lane the slot whose backward pass must come next (or `kFree`).
struct Counts {
  std::vector<uint8_t> forward, rebuilt, gradient, weight;
  std::vector<uint8_t> obliged;
  /// By slot and micro-batch: the forward pass kept what it saves, so that no R follows.
  std::vector<bool> whole;
  auto operator<=>(const Counts&) const = default;
};

/// Times of a state. Messages that all readers have read are 0.
struct Times {
  std::vector<double> clock;              ///< by lane
  std::vector<double> forward, gradient;  ///< ends by slot and micro-batch
  double end = 0;                         ///< of steps whose gradients are final

  bool dominates(const Times& other) const {
    const auto no_later = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) { return x <= y; });
    };
    return end <= other.end && no_later(clock, other.clock) && no_later(forward, other.forward) &&
           no_later(gradient, other.gradient);
  }
};

using Layer = std::map<Counts, std::vector<Times>>;

class ExactRows {
 public:
  ExactRows(const RowProblem& problem, double most, uint64_t states)
      : problem_(problem), most_(most), states_(states), paths_(found::slot_paths(problem)) {}

  std::optional<double> run() {
    const size_t slots = problem_.slots.size(), cells = slots * problem_.micro_batches;
    Counts none;
    none.forward = none.rebuilt = none.gradient = none.weight = std::vector<uint8_t>(slots, 0);
    none.obliged.assign(problem_.lanes.size(), kFree);
    none.whole.assign(cells, false);
    Layer layer{{none,
                 {{std::vector<double>(problem_.lanes.size(), 0), std::vector<double>(cells, 0),
                   std::vector<double>(cells, 0), 0}}}};
    double best = kNever;
    while (!layer.empty()) {
      Layer next;
      for (const auto& [counts, all] : layer) {
        if (complete(counts)) {
          for (const Times& times : all) best = std::min(best, final_end(times));
          most_ = std::min(most_, best);
          continue;
        }
        for (const Times& times : all) {
          if (seen_++ > states_) return std::nullopt;
          expand(counts, times, next);
        }
      }
      layer = std::move(next);
    }
    return best;
  }

 private:
  size_t cell(uint32_t s, uint32_t k) const { return s * problem_.micro_batches + k; }

  bool complete(const Counts& counts) const {
    return std::all_of(counts.weight.begin(), counts.weight.end(),
                       [&](uint8_t done) { return done == problem_.micro_batches; });
  }

  double final_end(const Times& times) const {
    double end = times.end;
    for (size_t l = 0; l < problem_.lanes.size(); ++l) end = std::max(end, times.clock[l] + finish(l));
    return end;
  }

  double finish(size_t lane) const {
    double time = 0;
    for (const uint32_t s : problem_.lanes[lane].slots) time += problem_.slots[s].finish;
    return time;
  }

  void expand(const Counts& counts, const Times& times, Layer& next) const {
    const bool whole = problem_.parts == found::BackwardParts::kWhole;
    for (uint32_t s = 0; s < problem_.slots.size(); ++s) {
      const uint8_t obliged = counts.obliged[problem_.slots[s].lane];
      if (obliged != kFree && obliged != s) continue;
      if (obliged == kFree && counts.forward[s] < problem_.micro_batches) {
        apply(counts, times, s, ActionKind::kForward, false, next);
        if (problem_.slots[s].recompute) apply(counts, times, s, ActionKind::kForward, true, next);
      }
      if (obliged == kFree && needs_rebuild(counts, s)) apply(counts, times, s, ActionKind::kRecompute, false, next);
      const uint8_t waiting = counts.forward[s] - counts.gradient[s];
      if (waiting > 0 && (obliged == kFree || waiting == 1)) {
        if (!whole) apply(counts, times, s, ActionKind::kInputGradient, false, next);
        if (counts.weight[s] == counts.gradient[s]) apply(counts, times, s, ActionKind::kBackward, false, next);
      }
      if (!whole && obliged == kFree && counts.weight[s] < counts.gradient[s])
        apply(counts, times, s, ActionKind::kWeightGradient, false, next);
    }
  }

  bool needs_rebuild(const Counts& counts, uint32_t s) const {
    return problem_.slots[s].recompute && counts.rebuilt[s] < counts.forward[s] &&
           !counts.whole[cell(s, counts.rebuilt[s])];
  }

  /// Adds the state after one more pass, unless it is impossible, too late or dominated. `keep`: an F that keeps what
  /// it saves, though its stage recomputes.
  void apply(Counts counts, Times times, uint32_t s, ActionKind kind, bool keep, Layer& next) const {
    const Slot& slot = problem_.slots[s];
    const bool forward = kind == ActionKind::kForward, gradient = ir::computes_input_gradient(kind);
    const uint8_t k = forward                          ? counts.forward[s]
                      : gradient                       ? counts.gradient[s]
                      : kind == ActionKind::kRecompute ? counts.rebuilt[s]
                                                       : counts.weight[s];
    if (gradient && slot.recompute && counts.rebuilt[s] <= k) return;
    if (forward && keep && !may_keep(k)) return;
    double start = times.clock[slot.lane];
    if (forward || gradient) start = std::max(start, arrival(counts, times, s, k, forward));
    if (start == kNever || !fits(counts, s, kind, k, keep)) return;
    double end = start + problem_.time(s, kind, k);
    if (forward && k == 0) end += slot.begin;
    times.clock[slot.lane] = end;
    if (forward) {
      ++counts.forward[s];
      times.forward[cell(s, k)] = end;
      if (keep) {
        counts.whole[cell(s, k)] = true;
        if (problem_.recomputed == ir::RecomputedMicroBatches::kUnlessBackwardFollows)
          counts.obliged[slot.lane] = static_cast<uint8_t>(s);
      }
    }
    if (kind == ActionKind::kRecompute) ++counts.rebuilt[s];
    if (gradient) {
      ++counts.gradient[s];
      counts.obliged[slot.lane] = kFree;
      times.gradient[cell(s, k)] = end;
    }
    if (ir::adds_weight_gradient(kind) && ++counts.weight[s] == problem_.micro_batches)
      times.end = std::max(times.end, end + slot.tail);
    while (slot.recompute && counts.rebuilt[s] < counts.forward[s] && counts.whole[cell(s, counts.rebuilt[s])])
      ++counts.rebuilt[s];
    forget_read(counts, times);
    if (least_end(counts, times) > most_) return;
    insert(std::move(counts), std::move(times), next);
  }

  bool may_keep(uint32_t k) const {
    using enum ir::RecomputedMicroBatches;
    if (problem_.recomputed == kAll) return false;
    return problem_.recomputed == kUnlessBackwardFollows || k + 1 == problem_.micro_batches;
  }

  double arrival(const Counts& counts, const Times& times, uint32_t s, uint32_t k, bool forward) const {
    double time = 0;
    for (const found::Feed& feed : forward ? problem_.slots[s].inputs : problem_.slots[s].gradients) {
      if ((forward ? counts.forward : counts.gradient)[feed.slot] <= k) return kNever;
      const auto& ends = forward ? times.forward : times.gradient;
      time = std::max(time, ends[cell(feed.slot, k)] + feed.delay[problem_.class_of[k]]);
    }
    return time;
  }

  /// Bytes that a lane holds after these passes. Sums of the bytes that each micro-batch holds.
  int64_t live(const Counts& counts, uint32_t lane) const {
    int64_t bytes = problem_.lanes[lane].fixed_bytes;
    for (const uint32_t s : problem_.lanes[lane].slots) {
      const Slot& slot = problem_.slots[s];
      if (counts.weight[s] > 0) bytes += slot.gradient_bytes;
      for (uint32_t k = counts.weight[s]; k < counts.forward[s]; ++k) {
        const SlotBytes& own = slot.bytes[problem_.class_of[k]];
        const bool saved = !slot.recompute || counts.whole[cell(s, k)] || k < counts.rebuilt[s];
        bytes += (saved ? own.saved : own.kept) + (k < counts.gradient[s] ? own.pending : 0);
      }
    }
    return bytes;
  }

  bool fits(const Counts& counts, uint32_t s, ActionKind kind, uint32_t k, bool keep) const {
    const uint32_t lane = problem_.slots[s].lane;
    const int64_t limit = problem_.lanes[lane].limit;
    if (limit == found::kNoLimit) return true;
    const SlotBytes& own = problem_.slots[s].bytes[problem_.class_of[k]];
    const bool passing = kind == ActionKind::kForward && problem_.slots[s].recompute && !keep;
    Counts after = counts;
    if (kind == ActionKind::kForward) ++after.forward[s], after.whole[cell(s, k)] = keep;
    if (kind == ActionKind::kRecompute) ++after.rebuilt[s];
    if (ir::computes_input_gradient(kind)) ++after.gradient[s];
    if (ir::adds_weight_gradient(kind)) ++after.weight[s];
    const int64_t during = live(counts, lane) + (passing ? own.passing : own.rise[index_of(kind)]);
    return std::max(during, live(after, lane)) <= limit;
  }

  void forget_read(const Counts& counts, Times& times) const {
    for (uint32_t s = 0; s < problem_.slots.size(); ++s) {
      forget(problem_.slots[s].readers, counts.forward, s, counts.forward[s], times.forward);
      forget(problem_.slots[s].sources, counts.gradient, s, counts.gradient[s], times.gradient);
    }
  }

  void forget(const std::vector<found::Reader>& readers, const std::vector<uint8_t>& read, uint32_t s, uint32_t made,
              std::vector<double>& ends) const {
    uint32_t all = made;
    for (const found::Reader& reader : readers) all = std::min<uint32_t>(all, read[reader.slot]);
    for (uint32_t k = all; k-- > 0 && ends[cell(s, k)] != 0;) ends[cell(s, k)] = 0;
  }

  /// The state's makespan is no less.
  double least_end(const Counts& counts, const Times& times) const {
    double least = times.end;
    for (uint32_t l = 0; l < problem_.lanes.size(); ++l) {
      double work = times.clock[l];
      for (const uint32_t s : problem_.lanes[l].slots) {
        double own = times.clock[l];
        for (uint32_t k = counts.forward[s]; k < problem_.micro_batches; ++k)
          own += problem_.time(s, ActionKind::kForward, k);
        const ActionKind kind =
            problem_.parts == found::BackwardParts::kWhole ? ActionKind::kBackward : ActionKind::kInputGradient;
        for (uint32_t k = counts.gradient[s]; k < problem_.micro_batches; ++k) own += problem_.time(s, kind, k);
        work += own - times.clock[l];
        if (counts.gradient[s] < problem_.micro_batches) least = std::max(least, own + paths_.after[s]);
        if (problem_.parts == found::BackwardParts::kWhole) continue;
        for (uint32_t k = counts.weight[s]; k < problem_.micro_batches; ++k)
          work += problem_.time(s, ActionKind::kWeightGradient, k);
      }
      least = std::max(least, work + finish(l));
    }
    return least * (1 - 1e-12);
  }

  static void insert(Counts counts, Times times, Layer& next) {
    std::vector<Times>& others = next[std::move(counts)];
    for (const Times& other : others) {
      if (other.dominates(times)) return;
    }
    std::erase_if(others, [&](const Times& other) { return times.dominates(other); });
    others.push_back(std::move(times));
  }

  const RowProblem& problem_;
  double most_;
  const uint64_t states_;
  const found::SlotPaths paths_;
  uint64_t seen_ = 0;
};

}  // namespace

std::optional<double> exact_row_makespan(const RowProblem& problem, double most, uint64_t states) {
  return ExactRows(problem, most, states).run();
}

}  // namespace rannc::partition
