/// Generates the rows of a schedule for the stages and devices of a plan.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"
#include "partition/schedule/family.h"

namespace rannc::partition {

/// Returns compute-only rows, with recompute actions for stages that recompute. `ir::lower_schedule` makes them
/// executable. The rows of a lowered table are returned as they are, verified. For inference, rows contain only forward
/// actions. Fails if the schedule does not support the shape: it needs one stage per device (GPipe, warm-ups, ZB-H),
/// two in a V (ZB-V, V-Half, V-Min) or a loop (interleaved). The message states the actual shape and a schedule that
/// fits.
Result<ir::Schedule> make_schedule(const ir::PipelineShape& shape, const ScheduleSpec& spec);

/// Assigns rows of ranks to devices: the row of rank r to each of `devices[r]`.
ir::Schedule place_rows(const ir::PipelineShape& shape, std::string name, const Rows& rows,
                        const std::vector<std::vector<DeviceId>>& devices);

}  // namespace rannc::partition
