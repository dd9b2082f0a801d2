/// Prices the stages of a plan: time and memory of their passes.
#pragma once

#include <set>
#include <vector>

#include "ir/plan/kept_choice.h"
#include "ir/plan/plan.h"
#include "partition/model/model_facts.h"
#include "partition/model/plan_options.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Prices stages whose tasks and devices do not change. Their functions and recompute may.
class StagePricer {
 public:
  /// Keeps references to `model` and `options`.
  StagePricer(const ModelFacts& model, const PlanOptions& options, const StagePlan& stages);

  /// Returns the times of a stage for each number of samples that a replica computes at once, larger ones first. Memory
  /// is that of the stage's functions.
  Result<std::vector<ir::StageTime>> price(const ir::Plan& plan, StageId stage);
  /// Sets the times of all stages' passes.
  Result<void> price_all(ir::Plan& plan);
  /// Sets the times of P and E of all stages. In training the plan has finish times.
  void price_once_per_step(ir::Plan& plan) const;

  /// Sets the times from marks to the end of the last B or W. The plan has finish times and a schedule.
  void price_marks(ir::Plan& plan) const;

  /// What keeping and recomputing values of a stage's joint graph costs, for the largest number of samples. A random
  /// input is generated in the time of starting one task and passing twice over its memory.
  ir::RecomputeCosts recompute_costs(const ir::Plan& plan, StageId stage) const;

 private:
  /// `repeated`: tasks of R.
  Result<ir::StageTime> time_of(const ir::Plan& plan, StageId stage, uint32_t samples,
                                const std::vector<TaskId>& repeated) const;
  std::vector<uint32_t> samples_of(const ir::Plan& plan, StageId stage) const;
  /// Time of `tasks` on the slowest of a stage's device kinds, for a number of samples.
  template <class Part>
  double slowest(StageId stage, uint32_t samples, const std::vector<TaskId>& tasks, Part&& part) const;

  const ModelFacts& model_;
  const PlanOptions& options_;
  std::vector<std::set<uint32_t>> kinds_;  ///< of devices, by stage
};

}  // namespace rannc::partition
