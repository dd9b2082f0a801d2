#include "partition/schedule/sum_marks.h"

#include <algorithm>
#include <limits>

namespace rannc::partition {

SumCost sum_cost(const ScheduleCosts& costs, const ir::Action& action) {
  const size_t stage = action.stage.index(), bucket = action.micro_batch;
  if (stage >= costs.all_reduce.size() || bucket >= costs.all_reduce[stage].size()) return {};
  return costs.all_reduce[stage][bucket];
}

SumMarks::SumMarks(const ir::Dependencies& dependencies, const ir::Schedule& schedule, const ScheduleCosts& costs) {
  const auto has_marks = [&](StageId stage) {
    if (dependencies.shape().stages[stage.index()].devices.size() < 2) return false;
    if (stage.index() >= costs.all_reduce.size()) return false;
    const std::vector<SumCost>& sums = costs.all_reduce[stage.index()];
    return std::any_of(sums.begin(), sums.end(), [](const SumCost& sum) { return sum.ahead > 0; });
  };
  for (uint32_t d = 0; d < schedule.rows.size(); ++d) {
    const auto& row = schedule.rows[d];
    const auto stages = dependencies.stages_on(DeviceId(d));
    auto open = std::count_if(stages.begin(), stages.end(), has_marks);
    std::map<StageId, std::vector<uint32_t>> sums;  // by stage, those behind
    for (size_t i = row.size(); open > 0 && i-- > 0;) {
      if (is_stage_sum(row[i])) {
        if (sum_cost(costs, row[i]).ahead > 0) sums[row[i].stage].push_back(static_cast<uint32_t>(i));
      } else if (ir::adds_weight_gradient(row[i].kind)) {
        const auto found = sums.find(row[i].stage);
        if (found == sums.end() || found->second.empty()) continue;
        for (const uint32_t sum : found->second) early_.insert({d, sum});
        marks_[{d, static_cast<uint32_t>(i)}] = std::exchange(found->second, {});
        --open;
      }
    }
  }
}

uint64_t SumMarks::periods_ahead(const Standing& earlier, const Standing& later) const {
  uint64_t periods = std::numeric_limits<uint64_t>::max();
  for (uint32_t d = 0; d < later.devices.size() && !marks_.empty(); ++d) {
    const uint32_t next = later.devices[d].next, length = next - earlier.devices[d].next;
    const auto mark = marks_.lower_bound({d, next});
    if (length == 0 || mark == marks_.end() || mark->first.first != d) continue;
    periods = std::min<uint64_t>(periods, (mark->first.second - next) / length);
  }
  return periods;
}

}  // namespace rannc::partition
