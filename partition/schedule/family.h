/// Defines the table of schedules, with one row per name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/schedule.h"
#include "partition/schedule/generators.h"
#include "partition/schedule/in_flight.h"
#include "partition/schedule/pattern.h"
#include "partition/schedule/periodic.h"
#include "partition/schedule/stage_layout.h"

namespace rannc::partition {

/// A schedule by name, with the parameters that some families require.
struct ScheduleSpec {
  std::string name;              ///< name of a row of `schedule_families()`
  std::vector<uint32_t> warmup;  ///< `warmup`, `latency`: depth by stage; empty: derived from `times`
  ChainTimes times;              ///< `Needs::kTimes`
  std::vector<uint32_t> most;    ///< `latency`: forwards of each stage that fit in memory; may be empty
  double period = 0;             ///< `1f1b-star`, `periodic`: T; 0: the smallest possible
  uint32_t k = 0;                ///< `k-periodic`: batches per pattern; 0: `default_k`
  SchedulePattern pattern;       ///< `Needs::kPattern`
  std::string table;             ///< `Needs::kTable`: text of `ir::parse_schedule` or of `parse_pattern`
  std::string table_file;        ///< `Needs::kTable`: its name in messages
  /// In stages that recompute.
  ir::RecomputedMicroBatches recomputed = ir::RecomputedMicroBatches::kUnlessBackwardFollows;
};

/// Input of a generator.
struct GeneratorInput {
  const ir::PipelineShape& shape;
  const ScheduleSpec& spec;
  uint32_t ranks = 1, chunks = 1;  ///< stages = ranks * chunks
  uint32_t micro_batches = 0;
};

/// Properties of one schedule. To add a schedule, add a row, its generator, and the literal table of the generator's
/// test.
struct ScheduleFamily {
  enum class Needs : uint8_t { kNothing, kWarmUp, kTimes, kPattern, kTable };

  std::string_view name;
  std::string_view summary;  ///< one phrase, for `--list schedule`
  StageLayout layout = StageLayout::kOnePerRank;
  Needs needs = Needs::kNothing;
  bool chosen_by_auto = false;   ///< planner `auto` may choose it
  bool splits_backward = false;  ///< B is split into an I and a later W
  bool takes_depths = false;     ///< `ScheduleSpec::warmup` applies
  /// Assumption of planners that choose no schedule (`StageProblem::in_flight`).
  InFlight assumed = InFlight::kOneFOneB;
  /// Micro-batches in flight. If the backward pass is split: until the last I; until the last W, the number that the
  /// first stage holds. Empty: they are counted in the rows, or the depths apply.
  std::optional<InFlight> held;
  /// Rows by rank; null: `by_device` generates them.
  Result<Rows> (*by_rank)(const GeneratorInput&) = nullptr;
  /// Rows by device.
  Result<ir::Schedule> (*by_device)(const GeneratorInput&) = nullptr;
};

/// All rows, in the order of documentation. Among equal plans `auto` prefers the earlier schedule.
std::span<const ScheduleFamily> schedule_families();

/// Returns the row with this name, or null.
const ScheduleFamily* find_schedule(std::string_view name);

/// Whether there is a row with this name and this need.
bool schedule_needs(std::string_view name, ScheduleFamily::Needs needs);

/// Names of all rows.
std::vector<std::string_view> schedule_names();

/// Names of the rows that `auto` may choose.
const std::vector<std::string>& schedules_of_auto();

}  // namespace rannc::partition
