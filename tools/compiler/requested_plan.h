/// Resolves the options of `rannc/compiler/plan_options.h`: cluster, schedule and costs.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "partition/model/plan_options.h"
#include "rannc/compiler/plan_options.h"
#include "rannc/compiler/read_options.h"

namespace rannc::tools {

/// Samples per step if neither the user nor the model file specifies a number.
constexpr uint32_t kMiniBatch = 32;
/// Share of a stage's time that `Recompute::kSelective` may recompute by default, in percent.
constexpr double kRecomputeBudget = 5;

/// Options of a plan with what they refer to.
struct RequestedPlan {
  compiler::PlanOptions options;  ///< consistent; `costs` is not `kOfCluster`
  /// For the planner. `mini_batch`, `demands`, `costs`, `training` and `model_digest` are set once the model is known.
  partition::PlanOptions planning;
  bool on_this_machine = false;  ///< devices are workers of this machine: measured links apply
  /// Names of the cluster's kinds of devices that are this machine's processor. Its times hold for no others.
  std::set<std::string> processor_kinds;

  /// Whether every device of the cluster is this machine's processor.
  bool on_processor() const;
};

/// Describes the GPUs of this machine, for `local:cuda`; empty in programs that cannot open them.
using LocalGpus = std::function<Result<partition::Cluster>()>;

/// Checks the options (`checked`) and resolves them. Reads cluster and schedule files. Workers of `local:N` have
/// `memory_bytes` or, by default, their share of this machine's memory (`worker_memory_bytes`). `read` has the options
/// of the model, whose mini-batch is the default, and whose assumed sizes hold.
Result<RequestedPlan> requested_plan(const compiler::PlanOptions& options, const compiler::ReadOptions& read = {},
                                     const LocalGpus& local_gpus = {});

/// Returns the planner that the options name.
std::unique_ptr<partition::StagePlanner> requested_planner(const partition::PlanOptions& options);

/// Describes an infeasible problem to the user: reason, missing bytes, remedies.
Diagnostic no_plan(const partition::Infeasible& none);

}  // namespace rannc::tools
