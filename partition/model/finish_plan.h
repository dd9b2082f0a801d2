/// From chosen stages to a complete plan: schedule, routes, simulated timeline and memory.
#pragma once

#include <string>

#include "ir/plan/plan.h"
#include "partition/model/model_costs.h"
#include "partition/model/tape.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// What a plan is made of beside the stages.
struct PlanFacts {
  const Cluster* cluster = nullptr;
  const ModelCosts* costs = nullptr;
  const Tape* tape = nullptr;  ///< of a graph with the same ids
  uint32_t mini_batch = 1;
  uint32_t optimizer_states = 0;
  ir::PlanOptimizer optimizer;  ///< unnamed: the plan names none
  bool training = true;
  std::string schedule = "1f1b";
  std::string schedule_table, schedule_file;  ///< of the schedule `table`: its text, and its name in messages
  uint64_t seed = 0;
  std::string model_digest, profile_digest;
};

/// Takes the graph over. Only devices that have a stage appear in the plan, renumbered in the cluster's order.
/// The schedule is lowered; predictions are left to `predict`. A diagnostic where the schedule cannot serve the stages.
Result<ir::Plan> finish_plan(ir::Graph graph, ir::Atoms atoms, const std::vector<uint32_t>& block_of_atom,
                             const StagePlan& stages, const PlanFacts& facts);

/// What may change in a plan without another cut.
struct Reschedule {
  uint32_t micro_batches = 1;
  std::string schedule = "1f1b";
  bool recompute = false;  ///< of every stage
};
/// The plan under another schedule: micro-batches, rows, recompute; predictions are dropped, as its prices are for
/// other sizes.
Result<ir::Plan> reschedule(const ir::Plan& plan, const Reschedule& change);

/// Whole ns that are no less, so that a stage does not seem faster than its tasks; at most what a step may take.
int64_t whole_ns(double ns);

/// Prices sums of gradients by the cluster's links and optimizers by its memory: `finish_times` and `sum_ns`. `shape`:
/// of the plan.
void price_finish(ir::Plan& plan, const ir::PipelineShape& shape, const Cluster& cluster);

/// Durations that a plan holds itself, without those of messages: all that is known where the cluster is not at hand.
ScheduleCosts compute_costs(const ir::Plan& plan);

/// Durations of a plan's actions: its own, and links of its devices in the cluster.
ScheduleCosts schedule_costs(const ir::Plan& plan, const Cluster& cluster);

/// Runs the plan's schedule on the times that it holds and stores `predictions` and `step_ns`. Returns the timeline.
Result<Timeline> predict(ir::Plan& plan, const Cluster& cluster);

/// Hex digest of a cluster's text.
std::string cluster_digest(const Cluster& cluster);

}  // namespace rannc::partition
