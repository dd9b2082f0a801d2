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

/// Numbers the letters of a row by their positions: the k-th F, I or B of a slot is of micro-batch k, each W completes
/// the oldest I without one, and the k-th R is of the k-th micro-batch whose B or I does not directly follow its F.
/// Returns whether every W finds an I, every R a micro-batch, and gradients are added in ascending order.
bool number(LaneRow& row, const RowProblem& problem);

/// The words of compute-only rows, renumbered. None if a row has no such word.
std::optional<LaneRows> words_of(const RowProblem& problem, const ir::Schedule& schedule);

/// Compute-only rows of words.
ir::Schedule schedule_of(const RowProblem& problem, const LaneRows& rows, std::string name);

}  // namespace rannc::partition::found
