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
  std::vector<size_t> recomputes;                  ///< positions of R
  std::vector<uint32_t> recomputed;                ///< micro-batches that an R may have

  /// Returns false if the letter is out of order.
  bool number(Letter& letter, const Letter* before) {
    switch (letter.kind) {
      case ActionKind::kForward:
        letter.micro_batch = forward++;
        return true;
      case ActionKind::kInputGradient:
      case ActionKind::kBackward: {
        letter.micro_batch = gradient++;
        const bool follows = before != nullptr && before->kind == ActionKind::kForward && before->slot == letter.slot &&
                             before->micro_batch == letter.micro_batch;
        if (!follows) recomputed.push_back(letter.micro_batch);
        if (letter.kind == ActionKind::kBackward) return letter.micro_batch == weight++;
        pending.push_back(letter.micro_batch);
        return letter.micro_batch < forward;
      }
      case ActionKind::kWeightGradient:
        if (pending.empty()) return false;
        letter.micro_batch = pending.front();
        pending.pop_front();
        return letter.micro_batch == weight++;
      default:
        return true;  // R are numbered once all gradients are known
    }
  }
};

}  // namespace

bool number(LaneRow& row, const RowProblem& problem) {
  std::vector<Counter> counters(problem.slots.size());
  for (size_t i = 0; i < row.size(); ++i) {
    if (!counters[row[i].slot].number(row[i], i > 0 ? &row[i - 1] : nullptr)) return false;
    if (row[i].kind == ActionKind::kRecompute) counters[row[i].slot].recomputes.push_back(i);
  }
  for (const Counter& counter : counters) {
    if (counter.recomputes.size() > counter.recomputed.size()) return false;
    for (size_t i = 0; i < counter.recomputes.size(); ++i) {
      row[counter.recomputes[i]].micro_batch = counter.recomputed[i];
    }
  }
  return true;
}

std::optional<LaneRows> words_of(const RowProblem& problem, const ir::Schedule& schedule) {
  LaneRows rows;
  for (const Lane& lane : problem.lanes) {
    LaneRow row;
    for (const ir::Action& action : schedule.rows[lane.devices[0].index()]) {
      const auto slot = std::find_if(lane.slots.begin(), lane.slots.end(),
                                     [&](uint32_t s) { return problem.slots[s].stage == action.stage; });
      if (slot == lane.slots.end()) return std::nullopt;
      row.push_back({action.kind, static_cast<uint16_t>(*slot), action.micro_batch});
    }
    if (!number(row, problem)) return std::nullopt;
    rows.push_back(std::move(row));
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
