/// Finds a schedule for a given cut by search.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/schedule/found/row_bound.h"
#include "partition/schedule/found/row_problem.h"
#include "partition/schedule/pattern.h"

namespace rannc::partition {

/// A cut with its costs. `shape` has the memory limits and the stages that recompute; `options` are those of the
/// simulator that judges.
struct FoundProblem {
  const ir::PipelineShape& shape;
  const ScheduleCosts& costs;
  SimulationOptions options = {};
};

struct FoundOptions {
  /// Budget: simulated actions, some 10 ns each. The result depends on it, but not on the speed of the machine.
  uint64_t actions = 20'000'000;
  found::BackwardParts parts = found::BackwardParts::kSplit;
  ir::RecomputedMicroBatches recomputed = ir::RecomputedMicroBatches::kUnlessBackwardFollows;
  uint64_t seed = 1;
  double beat = std::numeric_limits<double>::infinity();  ///< nothing is searched if the bound is this or more
};

/// A schedule and what is known about it.
struct FoundSchedule {
  /// Compute-only rows, named `found`. None: no rows were found that fit in memory.
  std::optional<ir::Schedule> schedule;
  double makespan = 0;  ///< simulated, lowered
  /// The schedule for any number of micro-batches: its rows for these are the schedule. Empty if the rows have no
  /// period that can be repeated; `pattern_of` the schedule then repeats all of it.
  SchedulePattern pattern;
  double pattern_period = 0;  ///< time of a further micro-batch, by the longest-path model
  std::string origin;         ///< step of the search that made the rows: `list`, `moves`, or the name of a family
  std::string best_named;     ///< the fastest named schedule that fits; empty: none does
  double named_makespan = 0;  ///< its makespan
  found::RowBound bound;      ///< on all rows for this cut
  uint64_t actions = 0;       ///< simulated
  uint64_t evaluations = 0;   ///< rows priced by the longest-path model or the simulator
};

/// Searches rows for a training shape. Never slower than a named schedule that fits. Rows are words
/// (`found/row_words.h`), unless a named schedule in another order is faster than all of them. Fails if the shape has
/// no stage or no micro-batch, or is for inference.
Result<FoundSchedule> find_schedule_rows(const FoundProblem& problem, const FoundOptions& options = {});

}  // namespace rannc::partition
