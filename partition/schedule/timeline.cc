/// Computes figures of a timeline and common costs.
#include <algorithm>

#include "partition/schedule/simulate.h"

namespace rannc::partition {

ScheduleCosts uniform_costs(const ir::PipelineShape& shape, ComputeTimes times, double latency) {
  ScheduleCosts costs;
  costs.compute.assign(shape.stages.size(), {times});
  if (latency > 0) costs.link = [latency](DeviceId, DeviceId) { return LinkCost{latency, 0}; };
  return costs;
}

double inner_idle(const DeviceTimeline& device) { return device.last - device.first - device.busy; }

double period_between(const ir::Schedule& schedule, const Timeline& timeline, uint32_t first, uint32_t last) {
  double first_end = 0, last_end = 0;
  for (size_t d = 0; d < schedule.rows.size(); ++d) {
    for (size_t i = 0; i < schedule.rows[d].size(); ++i) {
      const ir::Action& action = schedule.rows[d][i];
      if (action.stage != StageId(0)) continue;
      if (!ir::computes_input_gradient(action.kind)) continue;
      if (action.micro_batch == first) first_end = std::max(first_end, timeline.spans[d][i].end);
      if (action.micro_batch == last) last_end = std::max(last_end, timeline.spans[d][i].end);
    }
  }
  return last > first ? (last_end - first_end) / (last - first) : 0;
}

}  // namespace rannc::partition
