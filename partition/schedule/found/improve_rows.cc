#include "partition/schedule/found/improve_rows.h"

#include <algorithm>

#include "partition/schedule/found/lane_memory.h"

namespace rannc::partition::found {
namespace {

using ir::ActionKind;

class Climber {
 public:
  Climber(const RowProblem& problem, OrderModel& model, LaneRows rows, Random& random)
      : problem_(problem), model_(model), rows_(std::move(rows)), random_(random), bytes_(problem) {
    rigid_ = problem.recomputed == ir::RecomputedMicroBatches::kUnlessBackwardFollows &&
             std::any_of(problem.slots.begin(), problem.slots.end(), [](const Slot& slot) { return slot.recompute; });
  }

  ImprovedRows run(uint64_t actions, double enough) {
    const uint64_t end = model_.actions() + actions;
    current_ = measure();
    best_ = {rows_, makespan_};
    double best_cost = current_;
    if (current_ != kNever) tight_ = model_.tight_places(rows_);
    std::vector<double> history(kHistory, current_);
    for (uint64_t step = 0; model_.actions() < end && best_.makespan > enough; ++step) {
      if (!move()) {
        if (++failed_ > 1000) break;
        continue;
      }
      failed_ = 0;
      const double cost = measure();
      double& earlier = history[step % kHistory];
      if (cost <= current_ || cost <= earlier) {
        current_ = cost;
        tight_ = model_.tight_places(rows_);
        if (cost < best_cost) {
          best_cost = cost;
          best_ = {rows_, makespan_};
        }
      } else {
        rows_[lane_].swap(before_);
      }
      earlier = std::min(earlier, current_);
    }
    return std::move(best_);
  }

 private:
  static constexpr size_t kHistory = 2500;

  /// The makespan, and a little of how early rows end.
  double measure() {
    makespan_ = model_.run(rows_);
    return makespan_ == kNever ? kNever : makespan_ + 0.02 * model_.mean_end();
  }

  /// Changes a row. Returns false, with the row as before, if the change is not allowed.
  bool move() {
    const uint32_t kind = random_.below(10);
    Place at;
    if (kind < 7 && !tight_.empty()) {
      at = tight_[random_.below(static_cast<uint32_t>(tight_.size()))];
    } else {
      at.lane = random_.below(static_cast<uint32_t>(rows_.size()));
      if (rows_[at.lane].empty()) return false;
      at.position = random_.below(static_cast<uint32_t>(rows_[at.lane].size()));
    }
    lane_ = at.lane;
    before_ = rows_[lane_];
    const uint32_t distance = 1 + random_.below(random_.below(2) == 0 ? 2 : 8);
    bool changed = false;
    if (kind % 5 == 4) {
      changed = shift_range(at.position, distance);
    } else if (random_.below(2) == 0) {
      changed = shift(at.position, distance, true);
    } else {
      changed = shift(at.position > 0 ? at.position - 1 : 0, distance, false);
    }
    if (changed && fits()) return true;
    rows_[lane_].swap(before_);
    return false;
  }

  /// Moves a letter by up to `distance` places. A letter and its R next to it move together.
  bool shift(uint32_t from, uint32_t distance, bool earlier) {
    LaneRow& row = rows_[lane_];
    uint32_t first = from, last = from;
    if (ir::computes_input_gradient(row[from].kind) && from > 0 && is_rebuild(row[from - 1], row[from])) --first;
    if (row[from].kind == ActionKind::kRecompute && from + 1 < row.size() && is_rebuild(row[from], row[from + 1]))
      ++last;
    const auto blocks = [&](const Letter& other) {
      return keep_order(other, row[first]) || keep_order(other, row[last]);
    };
    uint32_t moved = 0;
    if (earlier) {
      while (moved < distance && first > moved && !blocks(row[first - moved - 1])) ++moved;
      std::rotate(row.begin() + (first - moved), row.begin() + first, row.begin() + last + 1);
    } else {
      while (moved < distance && last + moved + 1 < row.size() && !blocks(row[last + moved + 1])) ++moved;
      std::rotate(row.begin() + first, row.begin() + last + 1, row.begin() + last + moved + 1);
    }
    return moved > 0;
  }

  static bool is_rebuild(const Letter& a, const Letter& b) {
    return a.kind == ActionKind::kRecompute && a.slot == b.slot && a.micro_batch == b.micro_batch &&
           ir::computes_input_gradient(b.kind);
  }

  /// Moves the passes of a kind and slot for a range of micro-batches by the same distance.
  bool shift_range(uint32_t at, uint32_t distance) {
    const Letter which = rows_[lane_][at];
    const uint32_t rest = problem_.micro_batches - which.micro_batch;
    const uint32_t count = random_.below(3) == 0 ? rest : 1 + random_.below(rest);
    const bool earlier = random_.below(2) == 0;
    bool changed = false;
    const auto is_one = [&](const Letter& letter) {
      return letter.kind == which.kind && letter.slot == which.slot && letter.micro_batch >= which.micro_batch &&
             letter.micro_batch < which.micro_batch + count;
    };
    const auto size = static_cast<uint32_t>(rows_[lane_].size());
    for (uint32_t i = 0; i < size; ++i) {
      const uint32_t position = earlier ? i : size - 1 - i;
      if (is_one(rows_[lane_][position])) changed |= shift(position, distance, earlier);
    }
    return changed;
  }

  bool fits() {
    if (rigid_ && !pairs_hold()) return false;
    const int64_t limit = problem_.lanes[lane_].limit;
    return limit == kNoLimit || bytes_.peak(lane_, rows_[lane_]) <= limit;
  }

  /// Whether each B or I without an R still directly follows its F, and no other does.
  bool pairs_hold() {
    const LaneRow& row = rows_[lane_];
    rebuilt_.assign(problem_.slots.size() * problem_.micro_batches, false);
    for (size_t i = 0; i < row.size(); ++i) {
      const Letter& letter = row[i];
      const size_t cell = letter.slot * problem_.micro_batches + letter.micro_batch;
      if (letter.kind == ActionKind::kRecompute) rebuilt_[cell] = true;
      if (!problem_.slots[letter.slot].recompute || !ir::computes_input_gradient(letter.kind)) continue;
      const bool follows = i > 0 && row[i - 1] == Letter{ActionKind::kForward, letter.slot, letter.micro_batch};
      if (follows == rebuilt_[cell]) return false;
    }
    return true;
  }

  const RowProblem& problem_;
  OrderModel& model_;
  LaneRows rows_;
  Random& random_;
  LaneBytes bytes_;
  bool rigid_ = false;
  std::vector<bool> rebuilt_;
  std::vector<Place> tight_;
  LaneRow before_;     ///< the changed row
  uint32_t lane_ = 0;  ///< of the last change
  uint32_t failed_ = 0;
  double makespan_ = kNever, current_ = kNever;
  ImprovedRows best_;
};

}  // namespace

ImprovedRows improve_rows(const RowProblem& problem, OrderModel& model, LaneRows rows, uint64_t actions, double enough,
                          Random& random) {
  return Climber(problem, model, std::move(rows), random).run(actions, enough);
}

}  // namespace rannc::partition::found
