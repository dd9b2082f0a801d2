#include "partition/schedule/found/lane_memory.h"

#include <algorithm>

namespace rannc::partition::found {

using ir::ActionKind;

void LaneBytes::clear(uint32_t lane) {
  live_ = problem_->lanes[lane].fixed_bytes;
  begun_.assign(problem_->slots.size(), false);
}

LaneBytes::Use LaneBytes::use(const Letter& letter, bool rebuilt) const {
  const Slot& slot = problem_->slots[letter.slot];
  const SlotBytes& bytes = slot.bytes[problem_->class_of[letter.micro_batch]];
  int64_t rise = bytes.rise[index_of(letter.kind)], change = 0;
  switch (letter.kind) {
    case ActionKind::kForward:
      change = rebuilt ? bytes.kept : bytes.saved;
      if (rebuilt) rise = bytes.passing;
      break;
    case ActionKind::kRecompute:
      change = bytes.saved - bytes.kept;
      break;
    case ActionKind::kInputGradient:
      change = bytes.pending;
      break;
    default:
      change = -bytes.saved - (letter.kind == ActionKind::kWeightGradient ? bytes.pending : 0);
      if (!begun_[letter.slot]) change += slot.gradient_bytes;
  }
  return {std::max(live_ + rise, live_ + change), live_ + change};
}

void LaneBytes::add(const Letter& letter, bool rebuilt) {
  live_ = use(letter, rebuilt).after;
  if (ir::adds_weight_gradient(letter.kind)) begun_[letter.slot] = true;
}

int64_t LaneBytes::peak(uint32_t lane, const LaneRow& row) {
  const bool recomputes = std::any_of(problem_->lanes[lane].slots.begin(), problem_->lanes[lane].slots.end(),
                                      [&](uint32_t s) { return problem_->slots[s].recompute; });
  const auto cell = [&](const Letter& letter) { return letter.slot * problem_->micro_batches + letter.micro_batch; };
  if (recomputes) {
    rebuilt_.assign(problem_->slots.size() * problem_->micro_batches, false);
    for (const Letter& letter : row) {
      if (letter.kind == ActionKind::kRecompute) rebuilt_[cell(letter)] = true;
    }
  }
  clear(lane);
  int64_t most = live_;
  for (const Letter& letter : row) {
    const bool rebuilt = recomputes && rebuilt_[cell(letter)];
    most = std::max(most, use(letter, rebuilt).most);
    add(letter, rebuilt);
  }
  return most;
}

}  // namespace rannc::partition::found
