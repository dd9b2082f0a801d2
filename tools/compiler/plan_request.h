/// Requests for plans of models and of published profiles.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partition/cost/analytic.h"
#include "partition/model/plan_options.h"

namespace rannc::tools {

/// Samples per step if neither the user nor the model file specifies a number.
constexpr uint32_t kMiniBatch = 32;

/// Requires tasks to lie in a stage.
struct TaskPin {
  std::string task;  ///< a name, or a pattern with `*` and `?`
  uint32_t stage = 0;
  std::string source;  ///< text of the user, for messages
};

/// Forbids cuts between two tasks.
struct TasksTogether {
  std::string first, second;
  std::string source;
};

/// Options of a plan, with tasks by the names that the user wrote.
struct PlanRequest {
  /// `mini_batch`, `demands`, `costs`, `training` and `model_digest` are set once the model is known.
  partition::PlanOptions options;
  std::optional<uint32_t> mini_batch;  ///< empty: batch size of the model, or `kMiniBatch`
  std::vector<TaskPin> pins;           ///< need `options.constraints.stages`
  std::vector<TasksTogether> together;
  bool on_this_machine = false;  ///< devices are workers of this machine: measured links apply
  /// Names of the cluster's kinds of devices that are this machine's processor. Its times hold for no others.
  std::set<std::string> processor_kinds;

  enum class Costs : uint8_t { kMeasured, kAnalytic, kDatabase };
  Costs costs = Costs::kMeasured;        ///< for models; profiles contain costs
  partition::AnalyticOptions estimates;  ///< of what is not measured
  std::string database;                  ///< file for `kDatabase`
  bool choose_kernels = true;            ///< by measured times, if available

  /// Whether every device of the cluster is this machine's processor.
  bool on_processor() const;
};

/// A name of an atom. Several atoms may share a name, and an atom may have several.
struct AtomName {
  std::string name;
  uint32_t atom = 0;
};

/// Resolves pins and `together`: exact names first, then patterns. Fails on a name without atoms, on a stage that does
/// not exist and on an atom that is pinned to two stages.
Result<partition::AtomDemands> named_demands(const PlanRequest& request, const std::vector<AtomName>& names);

/// Returns the planner that the options name.
std::unique_ptr<partition::StagePlanner> requested_planner(const partition::PlanOptions& options);

/// Describes an infeasible problem to the user: reason, missing bytes, remedies.
Diagnostic no_plan(const partition::Infeasible& none);

}  // namespace rannc::tools
