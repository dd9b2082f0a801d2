/// Options of planning a model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "ir/base/batching.h"
#include "ir/gradient/joint.h"
#include "ir/plan/kept_choice.h"
#include "ir/plan/plan.h"
#include "partition/cost/cost_model.h"
#include "partition/model/block_demands.h"
#include "partition/stages/problem/problem.h"
#include "partition/stages/search/auto.h"

namespace rannc::partition {

struct GivenPlan;

/// Whether the replicas of a stage divide its optimizer state.
enum class ShardOptimizer : uint8_t {
  kNever,
  kAlways,       ///< in every stage with replicas
  kWhereNeeded,  ///< if no plan fits the memory otherwise, in the stages that would not fit; a given plan decides
                 ///< itself
};

/// Inputs to planning a model besides the model itself.
struct PlanOptions : PlanDemands {
  PlanOptions() { recompute = RecomputeRule::kChoose; }

  Cluster cluster;
  std::shared_ptr<const CostModel> costs;
  ir::Bindings assume;  ///< values of symbols other than the batch, for planning
  uint32_t blocks = 32;
  std::string block_partitioner = "rannc";
  std::string planner = "auto";  ///< one of `stage_planner_names`
  AutoOptions search;            ///< options of planner `auto`
  std::string schedule;          ///< empty: the planner's choice, or 1f1b if the planner chooses none
  std::string schedule_table;    ///< text of the schedule `table`
  std::string schedule_file;     ///< its name in messages
  /// Instead of a search. Its schedule replaces `schedule`; blocks, planner and demands on the plan do not apply.
  std::shared_ptr<const GivenPlan> given;
  /// The last plan of the model (`last_plan`), of which devices may be lost. The search is one near it (`replan`), over
  /// its blocks; `blocks` and `planner` do not apply. If no plan near it fits, they do.
  std::shared_ptr<const GivenPlan> last;
  bool loops = false;   ///< stages compute loop tasks by compiled loops (form native): prices, memory
  Batching batching;    ///< of the model; its reason stands in refusals
  AtomDemands demands;  ///< converted to constraints once blocks are known
  /// The joint graph of the model, for the type of the cluster's devices: the memory of blocks. Of inference, its
  /// forward pass alone. Required.
  std::shared_ptr<const ir::Joint> joint;
  /// Sets `Plan::functions` of a plan whose stages are chosen: the memory of stages. Required.
  std::function<Result<void>(ir::Plan&)> cut_functions;
  /// Trade-offs of a stage's recompute, by ascending bytes and descending time; the last recomputes nothing. If it is
  /// absent, recompute repeats whole stages.
  std::function<std::vector<ir::KeptChoice>(const ir::Joint&, const ir::RecomputeCosts&)> recompute_choices;
  /// Every stage recomputes with the least memory for which its recompute takes at most this share of its forward and
  /// backward time. Nothing: only stages recompute that would otherwise not fit.
  std::optional<double> recompute_budget;
  /// Runs a finished plan and returns its stage times with measured times of passes; nothing if it cannot run here.
  /// Planner `auto` then searches again with the measured stages (`model/measured_search.h`). Empty: it does not.
  std::function<Result<std::optional<std::vector<ir::StageTime>>>(const ir::Plan&)> measure;
  uint32_t measured_finalists = 3;  ///< most plans to measure after a search, the best one included
  std::stop_token stop;             ///< ends the search of stages early, with the best plan so far
  ShardOptimizer shard_optimizer = ShardOptimizer::kNever;
  ir::PlanOptimizer optimizer;  ///< of training
  bool training = true;
  uint64_t seed = 0;
  std::string model_digest;
};

}  // namespace rannc::partition
