/// Completes a plan from its stages: schedule, routes, simulated timeline and memory.
#pragma once

#include <optional>
#include <string>

#include "ir/plan/plan.h"
#include "partition/model/model_facts.h"
#include "partition/model/plan_options.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Returns a plan with the tasks, devices, routes and functions of `stages`, without times and schedule. Errors: those
/// of `PlanOptions::cut_functions`.
Result<ir::Plan> cut_plan(const ModelFacts& model, const std::vector<uint32_t>& block_of_atom, const StagePlan& stages,
                          const PlanOptions& options);

/// Builds a plan from `stages`. Only devices with a stage appear in the plan, renumbered
/// in the cluster's order. The schedule is lowered; `predict` adds the predictions. Fails if the schedule does not
/// support the stages. An empty `options.schedule` is that of `stages`.
Result<ir::Plan> finish_plan(const ModelFacts& model, const std::vector<uint32_t>& block_of_atom,
                             const StagePlan& stages, const PlanOptions& options);

/// Properties of a plan that can change without another cut.
struct Reschedule {
  uint32_t micro_batches = 1;
  std::string schedule = "1f1b";
  /// Micro-batches whose forward pass all stages repeat as a whole. Nothing: none.
  std::optional<ir::RecomputedMicroBatches> recompute;
};
/// Returns the plan under another schedule, with new micro-batches, rows and recompute. Its functions, if they are cut,
/// keep what the new recompute reads. Predictions are dropped, and so are prices, which apply to other sizes.
Result<ir::Plan> reschedule(const ir::Plan& plan, const Reschedule& change);

/// Rounds up to whole ns, so that a stage does not seem faster than its tasks. Limited to the longest allowed step.
int64_t whole_ns(double ns);

/// Bytes of the trained parameters of a stage, each counted once.
struct TrainedBytes {
  double parameters = 0;  ///< that the optimizer updates
  double gradients = 0;   ///< their gradient sums, which an all-reduce moves
  double states = 0;      ///< of the optimizer
};
/// Returns them by stage.
std::vector<TrainedBytes> trained_bytes(const ir::Plan& plan);

/// Prices gradient sums by the cluster's links and optimizers by its memory. Fills `finish_times` and `sum_ns`. `shape`
/// is that of the plan.
void price_finish(ir::Plan& plan, const ir::PipelineShape& shape, const Cluster& cluster);

/// Returns the durations that the plan itself stores, without those of messages. For use without a cluster.
ScheduleCosts compute_costs(const ir::Plan& plan);

/// Returns the durations of a plan's actions: those it stores, and messages over its devices' links in the cluster.
ScheduleCosts schedule_costs(const ir::Plan& plan, const Cluster& cluster);

/// Simulates the plan's schedule with its stored times and sets `predictions` and `step_ns`. Returns the timeline.
Result<Timeline> predict(ir::Plan& plan, const Cluster& cluster);

/// Returns the hex digest of a cluster's text.
std::string cluster_digest(const Cluster& cluster);

}  // namespace rannc::partition
