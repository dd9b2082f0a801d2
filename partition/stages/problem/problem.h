/// What every stage planner is given: blocks in order with their costs, a cluster, a mini-batch, and constraints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/cluster.h"
#include "partition/schedule/in_flight.h"

namespace rannc::partition {

/// Forward and backward times of every block at several sample counts.
/// Between two sizes time is linear; outside them it is in proportion to the nearest one.
struct TimeTable {
  std::vector<uint64_t> sizes;                ///< samples, strictly ascending, from 1, at least one
  std::vector<std::vector<double>> forward;   ///< [size][block], ns
  std::vector<std::vector<double>> backward;  ///< [size][block], ns
  /// [size][block], ns: the part of `backward` that makes weight gradients alone, which zero-bubble schedules put off.
  /// Empty: not parted, all of it counts as input gradient.
  std::vector<std::vector<double>> weight_gradient;

  /// Replaces each time by the largest among the sizes up to its own, so that a smaller share is never dearer.
  void make_monotone();
  /// The weight of two neighbouring sizes: t(samples) = low_weight * t[low] + high_weight * t[high].
  struct Blend {
    size_t low = 0, high = 0;
    double low_weight = 1, high_weight = 0;
  };
  Blend blend(uint64_t samples) const;
};

/// Which stages keep a value that crosses blocks from forward to backward.
enum class ValueKept : uint8_t {
  kNever,            ///< inference
  kWhereItCrosses,   ///< those that receive it, and the one that sends it, whose tasks alone would drop it
  kInProducersStash  ///< those that receive it; the producer's stash counts it already
};

/// A value that crosses blocks. It travels once to every *stage* that reads it, directly from its producer's stage.
struct BlockValue {
  uint32_t producer = 0;          ///< block
  std::vector<uint32_t> readers;  ///< blocks, ascending, distinct, all > producer
  double bytes_per_sample = 0;    ///< >= 0
  double bytes = 0;               ///< what does not grow with samples, >= 0
  bool gradient = true;           ///< whether a gradient of the same size comes back
  ValueKept kept = ValueKept::kInProducersStash;
};

/// What several blocks need and a stage holds once, however many of these blocks lie in it.
struct SharedHolding {
  enum class Kind : uint8_t {
    kParameter,  ///< with optimizer state; a tied one. Each of its blocks sums a gradient of its own
    kBuffer,     ///< held, but neither trained nor reduced
    kInput       ///< samples, kept from forward to backward
  };
  Kind kind = Kind::kParameter;
  std::vector<uint32_t> blocks;     ///< ascending, distinct, at least one
  double bytes_per_sample = 0;      ///< >= 0; of an input
  double bytes = 0;                 ///< what does not grow with samples, >= 0
  std::optional<double> sum_bytes;  ///< of a parameter: the sum of its gradients; empty: as large as the parameter

  double gradient_bytes() const { return sum_bytes.value_or(bytes); }
};

enum class RecomputeRule : uint8_t { kNever, kAlways, kChoose };

/// What a plan is judged by.
enum class Objective : uint8_t {
  kStepTime,     ///< simulated time of a mini-batch, ns
  kPeriod,       ///< time of a mini-batch when the pipeline is always full, ns: throughput (Beaumont 3)
  kLargestLoad,  ///< the busiest device: its work and every message in or out, of a mini-batch, ns
  kPeakMemory,   ///< bytes of the fullest device, among plans within `StageProblem::time_limit_ns`
};

/// A block that must lie in a stage, counted from 0.
struct StagePin {
  uint32_t block = 0, stage = 0;
};

/// What a user may demand; an empty field demands nothing.
struct StageConstraints {
  std::optional<uint32_t> stages;  ///< exactly so many
  std::optional<uint32_t> max_stages;
  std::vector<uint32_t> forbidden_cuts;  ///< c: blocks c-1 and c share a stage; ascending
  std::vector<uint32_t> replicas;        ///< per stage, in order; needs `stages`
  std::vector<StagePin> pins;            ///< ascending blocks, stages that do not descend; needs `stages`
  std::optional<uint64_t> memory_bytes;  ///< per device, lowers the cluster's own limit
};

struct StageProblem {
  uint32_t blocks = 0;
  std::vector<TimeTable> times;                    ///< per `Cluster::kinds`
  std::vector<double> parameter_bytes;             ///< per block: its own
  std::vector<double> gradient_bytes;              ///< per block: sums that an all-reduce moves; may be empty: as above
  std::vector<double> buffer_bytes;                ///< per block: held, but neither trained nor reduced; may be empty
  std::vector<double> stashed_bytes_per_sample;    ///< per block: kept from forward to backward
  std::vector<double> temporary_bytes_per_sample;  ///< per block: live only while it runs; may be empty
  std::vector<double> temporary_bytes;             ///< per block: beside these, however many samples; may be empty
  std::vector<double> pending_bytes_per_sample;    ///< per block: kept from I to W; may be empty: the stash
  std::vector<BlockValue> values;
  std::vector<SharedHolding> shared;  ///< beside what the blocks hold each for itself
  double optimizer_factor = 2;        ///< bytes of optimizer state per byte of parameters (Adam: 2)
  Cluster cluster;
  uint64_t mini_batch = 1;                     ///< samples of a step
  std::vector<uint64_t> micro_batches;         ///< candidate counts, ascending; empty: powers of two up to mini_batch
  Objective objective = Objective::kStepTime;  ///< of `auto`, `exact` and every judgement; others have their own
  std::optional<double> time_limit_ns;         ///< a step must not take longer
  InFlight in_flight = InFlight::kAll;
  RecomputeRule recompute = RecomputeRule::kNever;
  StageConstraints constraints;
  std::vector<std::string> names;  ///< per block, for people; may be empty
};

/// What a block sums gradients of its parameters in, bytes.
inline double gradient_bytes(const StageProblem& problem, uint32_t block) {
  return problem.gradient_bytes.empty() ? problem.parameter_bytes[block] : problem.gradient_bytes[block];
}

/// What a block holds of its parameters from the first backward pass on: themselves, gradients, optimizer state.
inline double trained_bytes(const StageProblem& problem, uint32_t block) {
  return problem.parameter_bytes[block] * (1 + problem.optimizer_factor) + gradient_bytes(problem, block);
}

/// Rejects what no planner can price: sizes that do not match, NaN, infinite or negative costs, unordered readers,
/// an empty cluster, constraints out of range. [C1 … rules in problem.cc]
Result<void> validate(const StageProblem& problem);

/// The candidate micro-batch counts: those given, or powers of two, none above `mini_batch`.
std::vector<uint64_t> micro_batch_candidates(const StageProblem& problem);

}  // namespace rannc::partition
