/// Chooses what each stage of a plan keeps for its recompute.
#pragma once

#include <functional>

#include "ir/plan/plan.h"
#include "partition/model/plan_options.h"
#include "partition/model/stage_pricer.h"

namespace rannc::partition {

/// Returns the lowered rows of a plan, whose shape is given.
using MakeRows = std::function<Result<ir::Schedule>(const ir::Plan&, const ir::PipelineShape&)>;

/// Replaces whole recompute by the trade-offs of `options.recompute_choices`. Sets `recompute` and the functions of
/// stages. Does nothing for plans without functions and if every stage must recompute as a whole. Without a budget,
/// also not for hand-written rows and if the objective is memory.
///
/// With `recompute_budget`, each stage starts with the least memory within the budget. Otherwise each stage for which
/// the planner chose recompute starts without. While a device exceeds its memory, the stage on it that saves most bytes
/// per additional time takes the next choice of its hull, and whole recompute last. A stage whose choice repeats no
/// task, or none of whose micro-batches has an R, does not recompute. Leaves the times of stages to be set.
///
/// Limits: the search of stages assumes whole recompute or the hulls of blocks (`block_hulls.h`). Stages that share a
/// device are changed greedily, one choice at a time. The memory of R itself is only checked, not part of the
/// trade-off.
Result<void> choose_kept(ir::Plan& plan, StagePricer& pricer, const PlanOptions& options, const MakeRows& make_rows);

}  // namespace rannc::partition
