/// Lowering of schedules: completes compute-only rows so that an executor can run them.
#pragma once

#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// Micro-batches whose forward pass is repeated, in a stage that recomputes.
enum class RecomputedMicroBatches : uint8_t {
  kUnlessBackwardFollows,  ///< those whose backward pass does not directly follow their forward pass
  kAll,
  kAllButLast,
};

/// Inserts an R before the B or I of the selected micro-batches of each stage that recomputes, unless the row already
/// has one. The R needs no gradient, so it overlaps the arrival of one.
Schedule add_recompute(const PipelineShape& shape, Schedule schedule,
                       RecomputedMicroBatches which = RecomputedMicroBatches::kUnlessBackwardFollows);

/// Adds transfers, collectives and optimizer steps to compute-only rows.
///
/// Actions are placed in one global order: that of a run in which F, I, W and R take one unit of time and B two. A send
/// comes directly after the action that produces its value. Its receive is placed at the same moment in the peer's row.
/// The global order proves that blocking sends cannot deadlock, for any routes (skips included). AR, SC and RS are
/// placed, on all members, where the last member has its last weight gradient. S and U are placed at the end of the
/// row, then AG.
///
/// Fails with S3 if a row has a stage of another device, and with S6 if rows wait for each other in a cycle.
Result<Schedule> lower_schedule(const PipelineShape& shape, const Schedule& schedule);

}  // namespace rannc::ir
