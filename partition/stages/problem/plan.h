/// Defines the output of stage planners: a plan with its bound, or the reason why none exists.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/base/ids.h"
#include "partition/schedule/pattern.h"

namespace rannc::partition {

/// Blocks [first, end) on one or more devices. Several devices share each micro-batch. Several stages may share
/// devices, all of them or none.
struct PlannedStage {
  uint32_t first = 0, end = 0;
  std::vector<DeviceId> devices;
  bool recompute = false;
  double forward_ns = 0;     ///< of one micro-batch on the slowest replica, with the receipt of its inputs
  double backward_ns = 0;    ///< likewise, with recompute and the gradients that it returns
  double all_reduce_ns = 0;  ///< per step
  double exposed_ns = 0;     ///< part of `all_reduce_ns` after the last backward pass
  double peak_bytes = 0;     ///< of the replica with the largest peak, with all stages of its device
  bool sharded = false;      ///< set for the finished plan; searches decide for all stages (`StageProblem::sharded`)
  bool operator==(const PlannedStage&) const = default;
};

/// A rejected plan, and the reason.
struct RunnerUp {
  std::string what;  ///< `2 stages 14:2, 32 micro-batches`
  double objective = 0;
  std::string why;  ///< its bottleneck, or why no plan exists
  bool operator==(const RunnerUp&) const = default;
};

struct StagePlan {
  std::string planner;
  std::vector<PlannedStage> stages;  ///< in order
  uint64_t micro_batches = 1;
  std::string schedule = "gpipe";
  std::vector<uint32_t> warm_up;  ///< per stage; empty: the schedule's own
  SchedulePattern pattern;        ///< rows of schedule `found`; else empty
  std::string objective_name;     ///< what `objective` and `lower_bound` measure
  double objective = 0;
  double step_ns = 0;  ///< simulated time of a mini-batch, for every objective; 0: not simulated
  /// No plan of this problem has a smaller objective. From a planner that gives each stage devices of its own: no plan
  /// that does so.
  double lower_bound = 0;
  std::string bound_name;  ///< the argument that proves the bound: `exact`, `work`, `heaviest block` …
  std::string bottleneck;  ///< one sentence
  std::vector<RunnerUp> runners_up;
  /// Of planner `auto`: the best plans with other cuts, replicas or micro-batches, best first. They have none.
  std::vector<StagePlan> finalists;
  std::vector<std::string> notes;  ///< where exactness was given up, what would help

  /// (objective - lower_bound) / lower_bound; 0 if both are 0.
  double gap() const { return lower_bound > 0 ? (objective - lower_bound) / lower_bound : (objective > 0 ? 1e300 : 0); }
  bool operator==(const StagePlan&) const = default;
};

/// No plan exists: a result, not an error.
struct Infeasible {
  std::string reason;
  double missing_bytes = 0;  ///< smallest possible excess over a memory limit; 0: memory is not the reason
  std::string help;          ///< what would make a plan possible
  bool operator==(const Infeasible&) const = default;
};

using StageOutcome = std::variant<StagePlan, Infeasible>;

/// Returns the replica counts and the cuts, such as `3:1 at 17`.
std::string brief(const StagePlan& plan);

}  // namespace rannc::partition
