/// Rows as words: the micro-batch of an action follows from its position.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partition/schedule/found/row_problem.h"

namespace rannc::partition::found {

/// An action of a lane.
struct Letter {
  ir::ActionKind kind = ir::ActionKind::kForward;
  uint16_t slot = 0;
  uint32_t micro_batch = 0;
  bool operator==(const Letter&) const = default;
};
using LaneRow = std::vector<Letter>;
using LaneRows = std::vector<LaneRow>;  ///< by lane

/// Whether the letters must keep their order within a row: one needs the other, or their micro-batches would not
/// ascend.
inline bool keep_order(const Letter& a, const Letter& b) {
  if (a.slot != b.slot) return false;
  if (a.micro_batch == b.micro_batch || a.kind == b.kind) return true;
  return (ir::computes_input_gradient(a.kind) && ir::computes_input_gradient(b.kind)) ||
         (ir::adds_weight_gradient(a.kind) && ir::adds_weight_gradient(b.kind));
}

/// The words of compute-only rows. The k-th F, I or B of a slot becomes that of micro-batch k, and each W completes the
/// oldest I without one. Each R stands directly before its B or I. None if gradients are not added in ascending order.
std::optional<LaneRows> words_of(const RowProblem& problem, const ir::Schedule& schedule);

/// Compute-only rows of words.
ir::Schedule schedule_of(const RowProblem& problem, const LaneRows& rows, std::string name);

}  // namespace rannc::partition::found
