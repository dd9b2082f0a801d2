/// The whole way from a model's atoms to a plan.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "partition/model/block_model.h"
#include "partition/model/finish_plan.h"
#include "partition/stages/planner.h"

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
  std::string schedule;          ///< empty: the planner's choice, 1f1b for those that choose none
  RecomputeRule recompute = RecomputeRule::kChoose;
  StageConstraints constraints;
  uint32_t optimizer_states = 0;
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

struct PlannedModel {
  ir::Plan plan;
  StageProblem problem;  ///< what the stage planner was given
  StagePlan stages;
  BlockedModel blocks;
  Timeline timeline;
  std::vector<Alternative> alternatives;
};

/// Prices, cuts into blocks, chooses stages, schedules and simulates. The result verifies (rules P and S).
Result<std::variant<PlannedModel, Infeasible>> plan_model(const ir::Graph& graph, const ir::Atoms& atoms,
                                                          const PlanOptions& options);

}  // namespace rannc::partition
