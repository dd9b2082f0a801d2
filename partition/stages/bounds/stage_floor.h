/// Tests whether a pipeline of optimistically priced stages can meet limits.
#pragma once

#include <vector>

#include "partition/stages/bounds/stage_floor_entries.h"

namespace rannc::partition {

/// Blocks [first, end) on `replicas` devices.
struct StageOutline {
  uint32_t first = 0, end = 0, replicas = 1;
  bool operator==(const StageOutline&) const = default;
};

/// Pipelines with one micro-batch count.
class StageFloor {
 public:
  /// Cost of a stage that cannot hold all micro-batches.
  enum class Recompute : uint8_t {
    kFree,    ///< nothing
    kPriced,  ///< the forward passes that it must repeat, or the time that its micro-batches wait for each other
  };
  StageFloor(const StageProblem& problem, const RangeCosts& ranges, const BestLinks& links, uint64_t micro_batches,
             Recompute recompute = Recompute::kPriced);

  /// Limits that all stages of a pipeline must meet.
  struct Limits {
    double time_ns = 0;       ///< of the objective, see `possible`
    double step_ns = 0;       ///< of a step, for every objective; infinity: none
    double memory_bytes = 0;  ///< of each device; infinity: the devices' own
  };
  /// Returns whether stages exist that meet the limits. False is certain; true is also returned once the budget is
  /// spent. O(blocks^2 * devices * replica counts), less for tight limits.
  bool possible(const Limits& limits, BoundBudget& budget) { return search(limits, budget, nullptr); }
  /// Returns such stages, in order, with the least time for one micro-batch to pass all of them. Empty if there are
  /// none or the budget is spent.
  std::vector<StageOutline> stages(const Limits& limits, BoundBudget& budget);

 private:
  struct Query;
  /// Last stage of a partial pipeline.
  struct Step {
    const FloorEntry* entry = nullptr;
    uint32_t first = 0;
  };

  /// Computes the least time from the end of a forward pass before a block until its gradient returns, by block and
  /// units left.
  void measure_away(Query& query);
  bool search(const Limits& limits, BoundBudget& budget, std::vector<Step>* last);
  size_t at(uint32_t block, uint32_t units) const { return size_t{block} * (entries_.units() + 1) + units; }

  const StageProblem& problem_;
  FloorEntries entries_;
  Recompute recompute_;
};

}  // namespace rannc::partition
