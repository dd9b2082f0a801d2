/// The whole way from a model's atoms to a plan.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "partition/model/block_demands.h"
#include "partition/model/block_model.h"
#include "partition/model/finish_plan.h"
#include "partition/model/stage_problem.h"
#include "partition/stages/planner.h"
#include "partition/stages/search/auto.h"

namespace rannc::partition {

struct PlanOptions {
  Cluster cluster;
  std::shared_ptr<const CostModel> costs;
  ir::Bindings assume;  ///< values of symbols other than the batch, for planning
  uint32_t mini_batch = 1;
  std::vector<uint64_t> micro_batches;  ///< candidate counts; empty: the planner's own
  uint32_t blocks = 32;
  std::string block_partitioner = "rannc";
  std::string planner = "auto";  ///< of `stage_planner_names`
  AutoOptions search;            ///< of planner auto
  std::string schedule;          ///< empty: the planner's choice, 1f1b for those that choose none
  std::string schedule_table;    ///< text of the schedule `table`
  std::string schedule_file;     ///< its name in messages
  Objective objective = Objective::kStepTime;
  std::optional<double> time_limit_ns;  ///< a step must not take longer
  RecomputeRule recompute = RecomputeRule::kChoose;
  StageConstraints constraints;
  AtomDemands demands;   ///< become constraints once blocks are known
  std::stop_token stop;  ///< ends the search of stages early, with the best plan so far
  uint32_t optimizer_states = 0;
  ir::PlanOptimizer optimizer;  ///< unnamed: the plan names none, and keeps `optimizer_states`
  bool training = true;
  uint64_t seed = 0;
  std::string model_digest;
};

/// A plan that was not taken, simulated beside the one that was.
struct Alternative {
  std::string what;     ///< `one device`, `data parallel on 2`
  int64_t step_ns = 0;  ///< 0: it does not fit
  std::string remark;
};

/// How long the parts of planning took: CPU time of the process, ns.
struct PlanTimes {
  int64_t price = 0;     ///< cost model
  int64_t blocks = 0;    ///< atoms to blocks
  int64_t stages = 0;    ///< blocks to stages
  int64_t schedule = 0;  ///< routes, prices of stages, rows of actions
  int64_t simulate = 0;  ///< the finished plan and the alternatives
  int64_t verify = 0;
};

struct PlannedModel {
  ir::Plan plan;
  StageProblem problem;  ///< what the stage planner was given
  StagePlan stages;
  BlockedModel blocks;
  Timeline timeline;
  std::vector<Alternative> alternatives;
  std::vector<std::string> remarks;  ///< where a demand was not met to the letter
  PlanTimes times;
};

/// Prices, cuts into blocks, chooses stages, schedules and simulates. The result verifies (rules P and S). Where blocks
/// are too coarse for the devices' memory, finer ones are tried before the answer is `Infeasible`. Planner auto then
/// splits the blocks beside its plan's cuts and climbs on, so that `problem` may have more blocks than were asked for.
Result<std::variant<PlannedModel, Infeasible>> plan_model(const ir::Graph& graph, const ir::Atoms& atoms,
                                                          const PlanOptions& options);

}  // namespace rannc::partition
