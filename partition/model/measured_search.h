/// Searches again with the measured times of whole stages.
#pragma once

#include "partition/model/model_facts.h"
#include "partition/model/plan_model.h"
#include "partition/model/plan_options.h"

namespace rannc::partition {

/// RaNNC III.C measures candidate stages within the search. Here:
/// 1. `PlanOptions::measure` runs the plan and its finalists, as finished plans. A stage's times are remembered by its
///    program (`stage_key`), kind of device and samples, so a plan runs only if one of its stages is unknown.
/// 2. The times replace the sums of these stages' blocks (`StageProblem::measured`), and the times of blocks are fitted
///    to them (`fitted_times`).
/// 3. Planner `auto` searches again, from every measured plan, over the same blocks.
/// Both are repeated until all stages of the best plans are measured and their ranking stays the same, at most
/// `kMostRounds` times; then the best measured plan is taken. A note reports rounds and plans.
///
/// `planned` is a finished plan of planner `auto`. If another plan wins, it is replaced; it then has all its numbers
/// (times of stages, step, objective) at the prices of tasks, as the first plan had, so that the bound stays
/// comparable. Measured times decide, but are not stored. Without `PlanOptions::measure`, does nothing.
Result<void> search_with_measured_stages(const PlanOptions& options, const ModelFacts& facts, PlannedModel& planned);

}  // namespace rannc::partition
