/// Schedules by name, for the stages and devices of a plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/schedule.h"
#include "partition/schedule/generators.h"
#include "partition/schedule/periodic.h"

namespace rannc::partition {

/// Which schedule, with what only some of them ask for.
struct ScheduleSpec {
  std::string name;              ///< one of `schedule_names()`
  std::vector<uint32_t> warmup;  ///< `warmup`: depth by stage
  ChainTimes times;              ///< `latency`, `1f1b-star`, `k-periodic`, `periodic`
  std::vector<uint32_t> most;    ///< `latency`: forwards of each stage that fit in memory; may be empty
  double period = 0;             ///< `1f1b-star`, `periodic`: T; 0: the smallest possible
  uint32_t k = 1;                ///< `k-periodic`: batches per pattern
  std::string table;             ///< `table`: text of `ir::parse_schedule`
  std::string table_file;        ///< `table`: its name in messages
};

/// All names (`asynchronous.h` has those that are never run), in the order in which they are documented.
std::vector<std::string_view> schedule_names();

/// Compute-only rows with recompute actions where stages recompute; `ir::lower_schedule` makes them runnable.
/// Not training: the forward actions alone.
/// Fails where the schedule cannot serve the shape: it needs one stage per device (GPipe, warm-ups, ZB-H), two in a V
/// (ZB-V, V-Half, V-Min) or a loop (interleaved); the message says what it found and which schedule would fit.
Result<ir::Schedule> make_schedule(const ir::PipelineShape& shape, const ScheduleSpec& spec);

/// Rows of ranks given to devices: rank r's to each of `devices[r]`.
ir::Schedule place_rows(const ir::PipelineShape& shape, std::string name, const Rows& rows,
                        const std::vector<std::vector<DeviceId>>& devices);

}  // namespace rannc::partition
