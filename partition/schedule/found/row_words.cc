#include "partition/schedule/found/row_words.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace rannc::partition::found {
namespace {

using ir::ActionKind;

/// Numbers the letters of one slot as they come.
struct Counter {
  uint32_t forward = 0, gradient = 0, weight = 0;  ///< `weight`: the next micro-batch whose gradient is added
  std::deque<uint32_t> pending;                    ///< I without W

  /// Returns false if the letter is out of order.
  bool number(Letter& letter) {
    switch (letter.kind) {
      case ActionKind::kForward:
        letter.micro_batch = forward++;
        return true;
      case ActionKind::kInputGradient:
        letter.micro_batch = gradient++;
        pending.push_back(letter.micro_batch);
        return letter.micro_batch < forward;
      case ActionKind::kBackward:
        letter.micro_batch = gradient++;
        return letter.micro_batch < forward && letter.micro_batch == weight++;
      default:
        if (pending.empty()) return false;
        letter.micro_batch = pending.front();
        pending.pop_front();
        return letter.micro_batch == weight++;
    }
  }
};

/// Whether an R precedes the B or I after `before`.
bool has_rebuild(const RowProblem& problem, const Letter& gradient, const Letter* before) {
  using enum ir::RecomputedMicroBatches;
  if (!problem.slots[gradient.slot].recompute) return false;
  if (problem.recomputed == kAll) return true;
  if (problem.recomputed == kAllButLast) return gradient.micro_batch + 1 < problem.micro_batches;
  return before == nullptr || *before != Letter{ActionKind::kForward, gradient.slot, gradient.micro_batch};
}

std::optional<LaneRow> word_of(const RowProblem& problem, const Lane& lane, const std::vector<ir::Action>& actions) {
  std::vector<Counter> counters(lane.slots.size());
  LaneRow row;
  for (const ir::Action& action : actions) {
    if (action.kind == ActionKind::kRecompute) continue;
    const auto at = std::find_if(lane.slots.begin(), lane.slots.end(),
                                 [&](uint32_t s) { return problem.slots[s].stage == action.stage; });
    if (at == lane.slots.end()) return std::nullopt;
    Letter letter{action.kind, static_cast<uint16_t>(*at), 0};
    if (!counters[static_cast<size_t>(at - lane.slots.begin())].number(letter)) return std::nullopt;
    if (ir::computes_input_gradient(letter.kind) && has_rebuild(problem, letter, row.empty() ? nullptr : &row.back()))
      row.push_back({ActionKind::kRecompute, letter.slot, letter.micro_batch});
    row.push_back(letter);
  }
  return row;
}

}  // namespace

std::optional<LaneRows> words_of(const RowProblem& problem, const ir::Schedule& schedule) {
  LaneRows rows;
  for (const Lane& lane : problem.lanes) {
    auto row = word_of(problem, lane, schedule.rows[lane.devices[0].index()]);
    if (!row) return std::nullopt;
    rows.push_back(*std::move(row));
  }
  return rows;
}

ir::Schedule schedule_of(const RowProblem& problem, const LaneRows& rows, std::string name) {
  ir::Schedule schedule;
  schedule.name = std::move(name);
  schedule.rows.resize(problem.shape->devices);
  for (size_t l = 0; l < rows.size(); ++l) {
    std::vector<ir::Action> row;
    for (const Letter& letter : rows[l]) {
      row.push_back(ir::compute_action(letter.kind, problem.slots[letter.slot].stage, letter.micro_batch));
    }
    for (const DeviceId device : problem.lanes[l].devices) schedule.rows[device.index()] = row;
  }
  return schedule;
}

}  // namespace rannc::partition::found
