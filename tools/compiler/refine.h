/// Measures plans by running them on this machine.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/bundle_writer.h"
#include "partition/model/plan_model.h"
#include "runtime/measure/measure_stages.h"
#include "tools/compiler/kept_runs.h"

namespace rannc::tools {

/// Callbacks for progress; either may be empty.
struct RefineProgress {
  std::function<void(const std::string&)> step;    ///< `measuring the stages side by side: step 2`
  std::function<void(const std::string&)> remark;  ///< why nothing was measured
};

/// Returns the form of a plan's stages: nothing, or compiled ones.
using NativeFormOf = std::function<Result<std::optional<codegen::NativeForm>>(const ir::Plan&)>;

/// Generates the stages of plans into a scratch folder and trains a few steps of each plan with synthetic samples on
/// this machine. All workers run side by side, optimizers included. Sums of separately measured tasks would miss the
/// effects of caches, allocation and neighbouring tasks. Remembers the plans: none runs twice.
class PlanRuns {
 public:
  PlanRuns(partition::Cluster cluster, ir::Bindings assume, NativeFormOf native, RefineProgress progress);

  /// Takes the times of plans that ran before from `kept`, and adds those of others to it. Must outlive this object.
  void keep_in(KeptRuns& kept) { kept_ = &kept; }

  /// Returns the plan's `stage_times` with measured times of passes (`PlanOptions::measure`). Nothing if the cluster is
  /// not this machine's processor or if the workers of the plan need more memory than is free. The plan is simulated.
  Result<std::optional<std::vector<ir::StageTime>>> measure(const ir::Plan& plan);

  /// Stores the measured times in the plan and simulates it again. The step at the prices of tasks, for which alone the
  /// plan's lower bound holds, becomes `searched_ns`. Returns false and leaves the plan unchanged if it cannot run.
  Result<bool> refine(partition::PlannedModel& planned);

 private:
  Result<const runtime::MeasuredStages*> measured(const ir::Plan& plan);
  Result<runtime::MeasuredStages> run(const ir::Plan& plan) const;
  bool fits(const ir::Plan& plan);

  partition::Cluster cluster_;
  ir::Bindings assume_;
  NativeFormOf native_;
  RefineProgress progress_;
  std::map<std::string, runtime::MeasuredStages> known_;  ///< by what a plan runs
  KeptRuns* kept_ = nullptr;
  bool remarked_ = false;  ///< that a plan does not fit
};

}  // namespace rannc::tools
