/// Defines the input of stage planners: blocks in order with their costs, a cluster, a mini-batch, and constraints.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/plan/buckets.h"
#include "ir/schedule/lower_schedule.h"
#include "partition/cluster.h"
#include "partition/schedule/in_flight.h"
#include "partition/stages/problem/measured_stages.h"

namespace rannc::partition {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Largest cost or size of a problem: sums of larger ones could overflow.
inline constexpr double kMostCost = 1e60;

/// Forward and backward times of every block at several sample counts.
/// Times are interpolated linearly between two sizes. Outside them they are in proportion to the nearest size.
struct TimeTable {
  std::vector<uint64_t> sizes;                ///< samples, strictly ascending, from 1, at least one
  std::vector<std::vector<double>> forward;   ///< [size][block], ns
  std::vector<std::vector<double>> backward;  ///< [size][block], ns
  /// [size][block], ns: the part of `backward` that computes weight gradients, which zero-bubble schedules delay.
  /// Empty: not separated, all of it counts as input gradient.
  std::vector<std::vector<double>> weight_gradient;
  /// [block], ns: work once per step besides the passes of micro-batches: P at its beginning and E at its end. Empty:
  /// none.
  std::vector<double> begin, gradients;

  /// Replaces each time by the largest time among the sizes up to its own, so that a smaller share never costs more.
  void make_monotone();
  /// Weights of two neighbouring sizes: t(samples) = low_weight * t[low] + high_weight * t[high].
  struct Blend {
    size_t low = 0, high = 0;
    double low_weight = 1, high_weight = 0;
  };
  Blend blend(uint64_t samples) const;
};

/// Which stages keep a value that crosses blocks from forward to backward.
enum class ValueKept : uint8_t {
  kNever,            ///< inference
  kWhereItCrosses,   ///< receiving stages, and the sending stage, whose tasks alone would free it
  kInProducersStash  ///< receiving stages; the producer's stash already includes it
};

/// A value that crosses blocks. It is sent once to every *stage* that reads it, directly from its producer's stage.
struct BlockValue {
  uint32_t producer = 0;          ///< block
  std::vector<uint32_t> readers;  ///< blocks, ascending, distinct, all > producer
  double bytes_per_sample = 0;    ///< >= 0
  double bytes = 0;               ///< bytes that do not grow with samples, >= 0
  bool gradient = true;           ///< whether a gradient of the same size is returned
  ValueKept kept = ValueKept::kInProducersStash;
};

/// Memory that several blocks need and a stage holds once for all of them.
struct SharedHolding {
  enum class Kind : uint8_t {
    kParameter,  ///< with optimizer state; a tied parameter. Each of its blocks sums its own gradient
    kBuffer,     ///< held, but neither trained nor reduced
    kInput       ///< samples, kept from forward to backward
  };
  Kind kind = Kind::kParameter;
  std::vector<uint32_t> blocks;     ///< ascending, distinct, at least one
  double bytes_per_sample = 0;      ///< >= 0; of an input
  double bytes = 0;                 ///< bytes that do not grow with samples, >= 0
  std::optional<double> sum_bytes;  ///< of a parameter: the sum of its gradients; empty: the size of the parameter
  std::optional<double> own_state;  ///< of a parameter: bytes of its optimizer state; empty: `optimizer_factor`

  double gradient_bytes() const { return sum_bytes.value_or(bytes); }
};

enum class RecomputeRule : uint8_t { kNever, kAlways, kChoose };

/// Objective of planning.
enum class Objective : uint8_t {
  kStepTime,     ///< simulated time of a mini-batch, ns
  kPeriod,       ///< time of a mini-batch in an always full pipeline, ns: throughput (Beaumont 3)
  kLargestLoad,  ///< busiest device: its work and all its messages for a mini-batch, ns
  kPeakMemory,   ///< bytes of the device with the largest peak, among plans within `StageProblem::step_limit_ns`
};

/// Requires a block to lie in a stage, counted from 0.
struct StagePin {
  uint32_t block = 0, stage = 0;
};

/// Demands of a user. Empty fields demand nothing.
struct StageConstraints {
  std::optional<uint32_t> stages;  ///< exact number of stages
  std::optional<uint32_t> max_stages;
  std::optional<uint32_t> stages_per_device;  ///< exact number on the device with most of them
  std::vector<uint32_t> forbidden_cuts;       ///< c: blocks c-1 and c share a stage; ascending
  std::vector<uint32_t> replicas;             ///< per stage, in order; needs `stages`
  std::vector<StagePin> pins;                 ///< ascending blocks, non-descending stages; needs `stages`
  std::optional<uint64_t> memory_bytes;       ///< per device; lowers the cluster's own limit
};

/// Parameters of schedules that have some. Empty or 0: derived from the times and the memory of the stages.
struct ScheduleParameters {
  std::vector<uint32_t> warm_up;  ///< `warmup`: depth by stage, non-ascending
  uint32_t periods = 0;           ///< `k-periodic`: batches per pattern
  double period_ns = 0;           ///< `1f1b-star`, `k-periodic`, `periodic`: T
};

/// Demands on a plan, whatever is planned: a model, a profile, or the blocks of either.
struct PlanDemands {
  uint64_t mini_batch = 1;                     ///< samples of a step
  std::vector<uint64_t> micro_batches;         ///< candidate counts, ascending; empty: powers of two up to mini_batch
  Objective objective = Objective::kStepTime;  ///< used by `auto`, `exact` and the judge; other planners have their own
  std::optional<double> step_limit_ns;         ///< upper limit on the step time
  RecomputeRule recompute = RecomputeRule::kNever;
  /// In stages that recompute.
  ir::RecomputedMicroBatches recomputed = ir::RecomputedMicroBatches::kUnlessBackwardFollows;
  StageConstraints constraints;
  ScheduleParameters schedule_parameters;
  /// Whether the runtime computes I and W apart. Otherwise W costs nothing and I the whole backward pass, so that
  /// planner `auto` chooses a schedule that splits it only on request.
  bool parts_backward = false;
  /// Whether replicas sum gradients beside the backward pass that makes them final. Otherwise after it.
  bool overlap_sums = true;
  uint64_t bucket_bytes = ir::kBucketBytes;  ///< limit of `ir::choose_buckets`; 0: one gradient at a time
};

/// A way to run a block that keeps part of what its backward pass reads and repeats part of its forward pass.
struct RebuildPoint {
  double bytes_per_sample = 0;  ///< kept beside what the block receives
  double share = 0;             ///< of the block's forward time that is repeated, from 0 to 1
  bool operator==(const RebuildPoint&) const = default;
};

struct StageProblem : PlanDemands {
  uint32_t blocks = 0;
  std::vector<TimeTable> times;         ///< per `Cluster::kinds`
  std::vector<double> parameter_bytes;  ///< per block: its own
  std::vector<double> gradient_bytes;   ///< per block: sums to all-reduce; empty: as `parameter_bytes`
  /// Per block: bytes of the largest gradient of one parameter that it reads. Empty: unknown.
  std::vector<double> largest_gradients;
  std::vector<double> state_bytes;                 ///< per block: optimizer state; empty: `optimizer_factor`
  std::vector<double> buffer_bytes;                ///< per block: held, but neither trained nor reduced; may be empty
  std::vector<double> stashed_bytes_per_sample;    ///< per block: kept from forward to backward
  std::vector<double> temporary_bytes_per_sample;  ///< per block: live only while the block runs; may be empty
  std::vector<double> temporary_bytes;             ///< per block: additional, independent of samples; may be empty
  std::vector<double> pending_bytes_per_sample;    ///< per block: kept from I to W; empty: the stash
  /// Per block, by ascending bytes and descending shares, at least one point each. A stage that recomputes then repeats
  /// as little as its memory allows (`pricing/stage_hulls.h`). Empty: it repeats its whole forward pass.
  std::vector<std::vector<RebuildPoint>> rebuild_hulls;
  std::vector<BlockValue> values;
  std::vector<SharedHolding> shared;  ///< in addition to the blocks' own memory
  /// Stages whose measured times replace the sums of their blocks in the judge (`PlanJudge`). Bounds and other planners
  /// than `auto` know the blocks alone.
  MeasuredStages measured;
  double optimizer_factor = 2;  ///< bytes of optimizer state per byte of parameters (Adam: 2)
  bool sharded = false;         ///< the replicas of a stage divide its optimizer state and its update
  Cluster cluster;
  InFlight in_flight = InFlight::kAll;
  std::vector<std::string> names;  ///< per block, for messages; may be empty
};

/// Bytes of the sums of a block's parameter gradients.
inline double gradient_bytes(const StageProblem& problem, uint32_t block) {
  return problem.gradient_bytes.empty() ? problem.parameter_bytes[block] : problem.gradient_bytes[block];
}

/// Bytes of the optimizer state of a block's own parameters, and of a shared one.
inline double state_bytes(const StageProblem& problem, uint32_t block) {
  return problem.state_bytes.empty() ? problem.parameter_bytes[block] * problem.optimizer_factor
                                     : problem.state_bytes[block];
}
inline double state_bytes(const StageProblem& problem, const SharedHolding& holding) {
  return holding.own_state.value_or(holding.bytes * problem.optimizer_factor);
}

/// Bytes held for a block's parameters from the first backward pass on: parameters, gradients, optimizer state.
inline double trained_bytes(const StageProblem& problem, uint32_t block) {
  return problem.parameter_bytes[block] + state_bytes(problem, block) + gradient_bytes(problem, block);
}

/// Rejects invalid problems: sizes that do not match, NaN, infinite or negative costs, unordered readers, an empty
/// cluster, constraints out of range. [C1 … rules in problem.cc]
Result<void> validate(const StageProblem& problem);

/// Returns the candidate micro-batch counts: the given ones, or powers of two; none above `mini_batch`.
std::vector<uint64_t> micro_batch_candidates(const PlanDemands& demands);

}  // namespace rannc::partition
