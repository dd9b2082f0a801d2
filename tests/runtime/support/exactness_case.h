/// The factors of the exactness matrix, and the plan of each combination.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/schedule/lower_schedule.h"
#include "tests/support/covering_array.h"

namespace rannc::testing {

/// A way to train `skip_tie_and_dropout`, which has a skip over all cuts, a parameter shared by two stages, and
/// dropout, or `counted_losses`.
struct ExactnessCase {
  std::string_view schedule;
  uint32_t stages = 1;
  /// By group of devices that hold the same stages, in the order of their first stages: `{2, 3, 1}` is repeated.
  std::vector<uint32_t> replicas;
  std::vector<uint32_t> micro_batches;  ///< samples of each
  std::optional<ir::RecomputedMicroBatches> recompute;
  std::string_view transport;
  ir::DType dtype = ir::DType::kF32;
  bool counts = false;      ///< train `counted_losses`
  bool reads_part = false;  ///< a process reads only the samples that it needs
  bool late_sums = false;   ///< gradients are summed after the backward pass, in one bucket; else each when it is final
};

/// A factor with the texts of its values.
struct ExactnessFactor {
  std::string name;
  std::vector<std::string> values;
};

/// All schedules; 1 to 4 stages; replicas; micro-batches that divide the mini-batch or not; recompute; all transports
/// that need no GPU; types; losses; what a process reads; when replicas sum gradients.
const std::vector<ExactnessFactor>& exactness_factors();
std::vector<uint32_t> exactness_sizes();  ///< number of values by factor

/// The case with these values of the factors.
ExactnessCase case_of(const Combination& values);
/// One process without a pipeline: the same micro-batches and type, one stage on one device.
ExactnessCase undivided(const ExactnessCase& of);
/// `schedule=1f1b stages=2 …`
std::string describe(const Combination& values);
/// `schedule=zb-v stages=1`
std::string describe(const ValuePair& pair);

/// Why no plan has this combination, or nothing if one has.
std::optional<std::string> why_impossible(const ExactnessCase& of);

/// The plan of a possible case, with a lowered schedule.
ir::Plan plan_of(const ExactnessCase& of);

}  // namespace rannc::testing
