/// The plan: all information that the runtime needs to train a graph on a cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/base/instruction_set.h"
#include "ir/graph/graph.h"
#include "ir/plan/atoms.h"
#include "ir/plan/optimizer.h"
#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// One pipeline stage: its tasks and its devices.
struct Stage {
  /// Ascending; constant tasks are cloned into every stage that needs them.
  std::vector<TaskId> tasks;
  /// Indices into `Plan::devices`. Several devices are data-parallel replicas, between which each micro-batch is split.
  std::vector<DeviceId> devices;
  /// Keep only the stage's inputs and run its forward pass again before its backward pass.
  bool recompute = false;
  /// Each replica keeps the optimizer state of its share of the parameters (`ir/plan/optimizer_shares.h`), and updates
  /// only that.
  bool sharded = false;
  /// Parameters whose gradients the replicas sum together, one AR or SC each, in the order in which the backward pass
  /// makes them final (`ir/plan/buckets.h`). Empty if the stage has neither, or nothing to sum in it.
  std::vector<std::vector<ValueId>> buckets;
  bool operator==(const Stage&) const = default;
};

/// An activation that is sent directly to one other stage. A value with two reading stages has two routes.
/// `PipelineShape::routes` and the schedule's sends and receives use the index in `Plan::routes`.
struct Route {
  ValueId value;
  StageId from, to;
  Dim bytes;              ///< of one micro-batch, an expression of the batch symbol
  bool gradient = false;  ///< whether a gradient is sent back
  bool operator==(const Route&) const = default;
};

/// A parameter that several stages read. All of them hold it, and the owner sums its gradient.
struct SharedParameter {
  ValueId parameter;
  StageId owner;                ///< first reading stage
  std::vector<StageId> others;  ///< ascending
  int64_t sum_ns = 0;           ///< time to add its gradients, as priced by the planner or measured
  bool operator==(const SharedParameter&) const = default;
};

/// A device of the plan.
struct PlanDevice {
  std::string name;           ///< `node0/cpu0`
  std::string kind;           ///< `cpu`, `v100` …
  uint64_t memory_bytes = 0;  ///< limit; 0: none
  DeviceType type = DeviceType::kCpu;
  InstructionSet instructions = kDefaultInstructions;  ///< of a processor
  bool operator==(const PlanDevice&) const = default;
};

/// Prediction of the simulator for one device and one mini-batch.
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
  int64_t weight_ns = 0;       ///< part of `backward_ns` that computes only weight gradients and can be deferred
  uint64_t pending_bytes = 0;  ///< kept from input gradient to weight gradient if they run separately
  uint64_t kept_bytes = 0;     ///< kept from forward to recompute; only with `Plan::functions`
  PassPeaks<uint64_t> peaks;   ///< of P and E: 0
  int64_t rebuild_ns = 0;      ///< of R; 0: as long as a forward pass

  /// Whether the peaks are those of functions, which may do nothing. Otherwise 0 is unknown.
  bool of_functions() const { return peaks.usual[ProgramKind::kBegin] > 0; }
  bool operator==(const StageTime&) const = default;
};

/// Time of a sum of gradients over replicas.
struct SumTime {
  int64_t sum_ns = 0;    ///< from the moment the last replica joins
  int64_t ahead_ns = 0;  ///< from its mark, where its gradients are final, to the end of the stage's last B or W
  bool operator==(const SumTime&) const = default;
};

/// Time of a stage's work at the end of a step, after its last backward pass, as priced by the planner or measured.
struct FinishTime {
  StageId stage;
  int64_t all_reduce_ns = 0;       ///< all ARs, or SC: sums over its replicas, from the moment the last one joins
  int64_t optimizer_ns = 0;        ///< S or U
  int64_t gradients_ns = 0;        ///< E: gradients of once-per-step tasks, before the all-reduce
  int64_t gather_ns = 0;           ///< AG of a sharded stage, from the moment the last replica joins
  std::vector<SumTime> sums = {};  ///< by bucket; empty: one sum, which begins after the last backward pass
  bool operator==(const FinishTime&) const = default;
};

/// All parts of a plan except its graph.
struct PlanBody {
  Atoms atoms;
  std::vector<BlockId> block_of;  ///< per atom
  std::vector<Stage> stages;      ///< in topological order
  std::vector<Route> routes;      ///< ascending by value, then by receiving stage
  std::vector<SharedParameter> shared;
  std::vector<PlanDevice> devices;
  uint32_t mini_batch = 0;              ///< samples of a step
  PlanOptimizer optimizer;              ///< memory is planned for its state
  bool training = true;                 ///< false: forward only
  bool loops = false;                   ///< compiled loops compute loop tasks, as prices and memory assume
  Bindings sizes;                       ///< other symbols than that of the batch, as prices and memory assume them
  std::vector<uint32_t> micro_batches;  ///< samples of each; they sum to `mini_batch` and differ by at most one
  Schedule schedule;                    ///< lowered
  std::vector<Prediction> predictions;  ///< per device
  std::vector<StageTime> stage_times;
  std::vector<FinishTime> finish_times;  ///< of every stage, in order; none for inference
  /// Time of P at the beginning of a step, in addition to its first forward pass, by stage. Empty: no stage has a P
  /// that takes time.
  std::vector<int64_t> begin_ns;
  int64_t step_ns = 0;         ///< simulated time of a mini-batch
  int64_t searched_ns = 0;     ///< the same at the prices of the search, if stages were measured since; 0: `step_ns`
  int64_t lower_bound_ns = 0;  ///< no plan for this graph, cluster and prices of the search can be faster
  std::string planner;         ///< name of the planner
  uint64_t seed = 0;
  /// Hex digests: model file, cluster description, profile (empty for analytic costs).
  std::string model_digest, cluster_digest, profile_digest;
  bool operator==(const PlanBody&) const = default;
};

struct StageFunctions;

/// A plan with its graph. Movable; copied explicitly by `clone`.
struct Plan : PlanBody {
  static constexpr uint32_t kVersion = 1;
  Graph graph;
  /// By stage: its programs (`ir/plan/functions.h`). Empty until they are cut.
  std::vector<std::shared_ptr<const StageFunctions>> functions;
  Plan clone() const;
};

/// The type of the plan's devices. Kernels and what they keep for the backward pass are chosen for it.
inline DeviceType device_type(const PlanBody& plan) {
  return plan.devices.empty() ? DeviceType::kCpu : plan.devices.front().type;
}

/// Instruction sets of the stage's devices, each once, ascending.
std::vector<InstructionSet> instruction_sets(const PlanBody& plan, StageId stage);

/// The sizes that a plan assumes of a micro-batch: those of its symbols.
Bindings bindings_of(const Plan& plan, uint32_t samples);

/// Splits `mini_batch` samples into min(count, mini_batch) non-empty micro-batches. Returns their sizes, larger ones
/// first.
std::vector<uint32_t> split_mini_batch(uint32_t mini_batch, uint32_t count);

/// Values that stages exchange and parameters that they share.
struct Crossings {
  std::vector<Route> routes;
  std::vector<SharedParameter> shared;
};

/// Computes the crossings from graph, atoms, stages and `training` of a plan. A value is routed to every other stage
/// that reads it. A gradient is sent back if the value is a float, a parameter is upstream of it, and the reader passes
/// gradients of a loss on to it.
Crossings crossings(const Plan& plan);

/// Fills `routes` and `shared` with the plan's crossings.
void derive_routes(Plan& plan);

/// Stage of each task's atom; invalid for constant tasks, which may be in several stages.
std::vector<StageId> stage_of_tasks(const Plan& plan);

/// Whether the backward pass goes through each value: floats with a parameter, or one of `sources`, upstream.
std::vector<bool> needs_gradient(const Graph& graph, std::span<const ValueId> sources = {});

/// Whether gradients of a loss, or of `seeds`, may reach each value: those behind `stop_gradient` alone have none. A
/// gradient of zeros instead would become NaN in tasks before it whose slope is infinite.
std::vector<bool> reached_by_gradients(const Graph& graph, std::span<const ValueId> seeds = {});

/// Whether a task passes gradients on to its operands. `reached`: `reached_by_gradients`.
bool passes_gradients(const Graph& graph, TaskId task, const std::vector<bool>& reached);

/// The view of a plan that schedules, simulator and executor use. Bytes per sample are rounded up. A stage's fixed
/// bytes are the parameters, buffers and constants that its tasks read, each counted once, and the optimizer state of
/// the parameters, or of the largest share if the stage is sharded. The memory of passes comes from `stage_times` if
/// the stage has an entry.
PipelineShape pipeline_shape(const Plan& plan);

bool equal(const Plan& a, const Plan& b);

}  // namespace rannc::ir
