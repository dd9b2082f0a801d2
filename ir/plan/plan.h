/// All that a person or the runtime has to know to train a graph on a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/plan/atoms.h"
#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// One pipeline stage: what it computes and where.
struct Stage {
  /// Ascending; constant tasks are cloned into every stage that needs them.
  std::vector<TaskId> tasks;
  /// Ordinals into `Plan::devices`; more than one: data-parallel replicas of the stage, each micro-batch is split.
  std::vector<DeviceId> devices;
  /// Keep only the stage's inputs and run its forward pass again before its backward pass.
  bool recompute = false;
  bool operator==(const Stage&) const = default;
};

/// An activation that one other stage reads, sent directly: a value with two reading stages makes two routes.
/// The index in `Plan::routes` is the index in `PipelineShape::routes` and in the schedule's sends and receives.
struct Route {
  ValueId value;
  StageId from, to;
  Dim bytes;              ///< of one micro-batch, an expression of the batch symbol
  bool gradient = false;  ///< whether a gradient comes back
  bool operator==(const Route&) const = default;
};

/// A parameter that several stages read: held by all, its gradient summed at the owner.
struct SharedParameter {
  ValueId parameter;
  StageId owner;                ///< first reading stage
  std::vector<StageId> others;  ///< ascending
  int64_t sum_ns = 0;           ///< what adding its gradients takes, as priced by the planner or measured
  bool operator==(const SharedParameter&) const = default;
};

/// A device as the plan knows it.
struct PlanDevice {
  std::string name;           ///< `node0/cpu0`
  std::string kind;           ///< `cpu`, `v100` …
  uint64_t memory_bytes = 0;  ///< limit; 0: none
  bool operator==(const PlanDevice&) const = default;
};

/// What the simulator says of one device for one mini-batch.
struct Prediction {
  int64_t busy_ns = 0;
  uint64_t peak_bytes = 0;
  bool operator==(const Prediction&) const = default;
};

/// Forward and backward time of a stage for one micro-batch of `samples`, as priced by the planner or measured.
struct StageTime {
  StageId stage;
  uint32_t samples = 0;
  int64_t forward_ns = 0, backward_ns = 0;
  uint64_t stashed_bytes = 0;  ///< kept from forward to backward, received and sent values included
  int64_t weight_ns = 0;       ///< of `backward_ns`, what makes weight gradients alone and can be put off
  uint64_t pending_bytes = 0;  ///< kept from input gradient to weight gradient, where these are parted
  /// What a pass needs at most beyond what was there before it: a forward pass that keeps nothing, one that keeps all,
  /// a backward pass. 0: not known.
  uint64_t passing_bytes = 0, forward_bytes = 0, backward_bytes = 0;
  uint64_t first_backward_bytes = 0;  ///< of the step's first, which makes the sums of parameters' gradients
  bool operator==(const StageTime&) const = default;
};

/// What a stage does once a step, behind its last backward pass, as priced by the planner or measured.
struct FinishTime {
  StageId stage;
  int64_t all_reduce_ns = 0;  ///< sum over its replicas, once the last has joined
  int64_t optimizer_ns = 0;
  bool operator==(const FinishTime&) const = default;
};

/// The optimizer that a plan is for: a run of its bundle takes it unless told otherwise.
struct PlanOptimizer {
  std::string name;     ///< `sgd`, `adam` or `adamw`; empty: not said, as in plans for inference
  double momentum = 0;  ///< of `sgd`
  /// Copies of the parameters that it keeps: SGD 0, with momentum 1, Adam 2.
  uint32_t states() const { return name != "sgd" ? 2 : momentum != 0 ? 1 : 0; }
  bool operator==(const PlanOptimizer&) const = default;
};

/// All of a plan but its graph.
struct PlanBody {
  Atoms atoms;
  std::vector<BlockId> block_of;  ///< per atom
  std::vector<Stage> stages;      ///< in topological order
  std::vector<Route> routes;      ///< ascending by value, then by receiving stage
  std::vector<SharedParameter> shared;
  std::vector<PlanDevice> devices;
  uint32_t mini_batch = 0;        ///< samples of a step
  uint32_t optimizer_states = 0;  ///< copies of the parameters that memory is planned for
  PlanOptimizer optimizer;
  bool training = true;                 ///< false: forward only
  std::vector<uint32_t> micro_batches;  ///< samples of each; they sum to `mini_batch` and differ by at most one
  Schedule schedule;                    ///< lowered
  std::vector<Prediction> predictions;  ///< per device
  std::vector<StageTime> stage_times;
  std::vector<FinishTime> finish_times;  ///< of every stage, in order; none for inference
  int64_t step_ns = 0;                   ///< simulated time of a mini-batch
  int64_t lower_bound_ns = 0;            ///< no plan for this graph, cluster and costs can be faster
  std::string planner;                   ///< which planner made it
  uint64_t seed = 0;
  /// Hex digests: model file, cluster description, profile (empty for analytic costs).
  std::string model_digest, cluster_digest, profile_digest;
  bool operator==(const PlanBody&) const = default;
};

/// Moved, or copied by `clone` where a second one is meant.
struct Plan : PlanBody {
  static constexpr uint32_t kVersion = 1;
  Graph graph;
  Plan clone() const;
};

/// Sizes that `mini_batch` samples split into, larger ones first, none empty: min(count, mini_batch) micro-batches.
std::vector<uint32_t> split_mini_batch(uint32_t mini_batch, uint32_t count);

/// What stages hand to each other and hold together.
struct Crossings {
  std::vector<Route> routes;
  std::vector<SharedParameter> shared;
};

/// Follows from graph, atoms, stages and `training` of a plan alone: a value is routed to every other stage that reads
/// it. A gradient comes back where the value is a float and a parameter lies upstream of it.
Crossings crossings(const Plan& plan);

/// Fills `routes` and `shared` with the plan's crossings.
void derive_routes(Plan& plan);

/// Per task the stage that holds its atom; invalid for constant tasks, which may be in several.
std::vector<StageId> stage_of_tasks(const Plan& plan);

/// Per value whether a parameter lies upstream, so that backward passes through it: floats only.
std::vector<bool> needs_gradient(const Graph& graph);

/// What schedules, simulator and executor need of a plan. Bytes per sample are rounded up; stages' fixed bytes are
/// parameters, buffers and constants that its tasks read, and `optimizer_states` copies of the parameters, each once
/// however many tasks read it; what passes keep and need comes from `stage_times` where a stage has one.
PipelineShape pipeline_shape(const Plan& plan);

bool equal(const Plan& a, const Plan& b);

}  // namespace rannc::ir
