/// Finds where in their rows devices join gradient sums before they reach them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/schedule/dependencies.h"
#include "partition/schedule/simulate.h"
#include "partition/schedule/steady_state.h"

namespace rannc::partition {

/// AR and SC: whether an action sums gradients of one stage.
inline bool is_stage_sum(const ir::Action& action) {
  return ir::is_reduction(action.kind) && !ir::is_of_group(action.kind);
}

/// The cost of an AR or SC; nothing where none is given.
SumCost sum_cost(const ScheduleCosts& costs, const ir::Action& action);

/// Marks of lowered rows: the last B or W of each stage with sums that are ahead of its end.
class SumMarks {
 public:
  SumMarks() = default;
  SumMarks(const ir::Dependencies& dependencies, const ir::Schedule& schedule, const ScheduleCosts& costs);

  /// The sums that the device joins within an action of its row, as places in the row; null: none.
  const std::vector<uint32_t>* within(uint32_t device, uint32_t action) const {
    const auto found = marks_.empty() ? marks_.end() : marks_.find({device, action});
    return found == marks_.end() ? nullptr : &found->second;
  }
  /// Whether the device joins a sum of its row at its mark.
  bool is_early(uint32_t device, uint32_t sum) const { return early_.contains({device, sum}); }
  /// How many periods pass before a device is beyond its next B or W with marks.
  uint64_t periods_ahead(const Standing& earlier, const Standing& later) const;

 private:
  using InRow = std::pair<uint32_t, uint32_t>;  ///< a device, and a place in its row

  std::map<InRow, std::vector<uint32_t>> marks_;
  std::set<InRow> early_;
};

}  // namespace rannc::partition
