/// Rows of a schedule for the stages and devices of a plan.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"
#include "partition/schedule/family.h"

namespace rannc::partition {

/// Compute-only rows with recompute actions where stages recompute; `ir::lower_schedule` makes them runnable.
/// Not training: the forward actions alone.
/// Fails where the schedule cannot serve the shape: it needs one stage per device (GPipe, warm-ups, ZB-H), two in a V
/// (ZB-V, V-Half, V-Min) or a loop (interleaved); the message says what it found and which schedule would fit.
Result<ir::Schedule> make_schedule(const ir::PipelineShape& shape, const ScheduleSpec& spec);

/// Rows of ranks given to devices: rank r's to each of `devices[r]`.
ir::Schedule place_rows(const ir::PipelineShape& shape, std::string name, const Rows& rows,
                        const std::vector<std::vector<DeviceId>>& devices);

}  // namespace rannc::partition
