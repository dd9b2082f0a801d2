/// Completes the rows of generators to rows that an executor can walk.
#pragma once

#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// Puts an R before the B or I of every micro-batch of a stage that recomputes, except where the backward pass follows
/// its forward pass at once or has one already. The R needs no gradient, so it overlaps the arrival of one.
Schedule add_recompute(const PipelineShape& shape, Schedule schedule);

/// Adds transfers, collectives and optimizer steps to compute-only rows.
///
/// Actions are placed in one global order: that of a run in which F, I, W and R take one unit and B two. A send stands
/// right behind the action that produces its value, and its receive at that moment in the peer's row; so the order
/// proves by itself that blocking sends cannot deadlock, whatever the routes (skips included). AR and RS stand, on all
/// members, where the last member has its last weight gradient; steps at the end of the row.
/// Fails with S3 where a row has a stage of another device, with S6 where the rows wait for each other.
Result<Schedule> lower_schedule(const PipelineShape& shape, const Schedule& schedule);

}  // namespace rannc::ir
