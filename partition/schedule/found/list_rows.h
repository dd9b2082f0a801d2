/// List scheduling: builds rows in the order of time under a policy.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/schedule/found/row_words.h"

namespace rannc::partition::found {

/// What a device does when it has a choice.
struct Policy {
  enum class First : uint8_t { kGradient, kForward, kAlternate, kTarget };

  First first = First::kGradient;
  std::vector<uint32_t> ahead;  ///< by slot: most forward passes without a backward pass
  std::vector<uint32_t> lag;    ///< by slot: most I without W; then a W comes first
  double patience = 1;          ///< a W is not begun if a pass arrives within this part of its time
  /// Times by slot, kind and micro-batch (`target_cell`) at which a pass should start; the earliest one comes first.
  std::vector<double> target;
};

inline size_t target_cell(const RowProblem& problem, uint32_t slot, ir::ActionKind kind, uint32_t micro_batch) {
  return (slot * kKinds + index_of(kind)) * problem.micro_batches + micro_batch;
}

/// Rows and the number of their actions. Incomplete, with `complete` false, if memory or the policy leaves no next
/// pass.
struct ListedRows {
  LaneRows rows;
  bool complete = false;
};

/// Each device starts the first available pass by the policy, and waits if there is none. A forward pass starts only if
/// afterwards the oldest micro-batch of the lane can still be completed within its limit. Deterministic; ties go to the
/// smaller lane. O(actions * (log lanes + slots per lane)).
ListedRows list_rows(const RowProblem& problem, const Policy& policy);

}  // namespace rannc::partition::found
