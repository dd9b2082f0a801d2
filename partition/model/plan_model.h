/// Plans a model from its atoms to the finished plan.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "partition/model/block_model.h"
#include "partition/model/plan_options.h"
#include "partition/schedule/simulate.h"
#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// A rejected plan, simulated for comparison with the chosen one.
struct Alternative {
  std::string what;     ///< `one device`, `data parallel on 2`
  int64_t step_ns = 0;  ///< 0: it does not fit
  std::string remark;
};

/// CPU time of the process for each part of planning, ns.
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
  StageProblem problem;  ///< the stage planner's input
  StagePlan stages;
  BlockedModel blocks;
  Timeline timeline;
  std::vector<Alternative> alternatives;
  std::vector<std::string> remarks;  ///< demands that were not met exactly
  PlanTimes times;
};

/// Prices the tasks, cuts the model into blocks, chooses stages, schedules and simulates. The result passes
/// verification (rules P and S). If the blocks are too coarse for the devices' memory, finer ones are tried before
/// `Infeasible` is returned; with `ShardOptimizer::kWhereNeeded`, so is sharded optimizer state. Planner `auto` then
/// splits the blocks beside its plan's cuts and continues its search, so `problem` may have more blocks than requested.
Result<std::variant<PlannedModel, Infeasible>> plan_model(const ir::Graph& graph, const ir::Atoms& atoms,
                                                          const PlanOptions& options);

}  // namespace rannc::partition
