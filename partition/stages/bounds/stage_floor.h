/// Whether the stages that a plan could at best consist of form a pipeline within limits.
#pragma once

#include <vector>

#include "partition/stages/bounds/stage_floor_entries.h"

namespace rannc::partition {

/// Blocks [first, end) on so many devices.
struct StageOutline {
  uint32_t first = 0, end = 0, replicas = 1;
  bool operator==(const StageOutline&) const = default;
};

/// Pipelines of one micro-batch count.
class StageFloor {
 public:
  /// What a stage that cannot hold all micro-batches pays for it.
  enum class Recompute : uint8_t {
    kFree,    ///< nothing
    kPriced,  ///< the forward passes it must repeat, or the time that its micro-batches wait for each other
  };
  StageFloor(const StageProblem& problem, const RangeCosts& ranges, const BestLinks& links, uint64_t micro_batches,
             Recompute recompute = Recompute::kPriced);

  /// What must hold for the stages of a pipeline.
  struct Limits {
    double time_ns = 0;       ///< of the objective, see `possible`
    double step_ns = 0;       ///< of a step, whatever the objective; infinity: none
    double memory_bytes = 0;  ///< of each device; infinity: the devices' own
  };
  /// Whether stages exist that meet the limits; false is certain, true is also said once the budget is spent.
  /// O(blocks^2 * devices * replica counts), less where the limits are tight.
  bool possible(const Limits& limits, BoundBudget& budget) { return search(limits, budget, nullptr); }
  /// Such stages, in order, with the least time of one micro-batch through all of them; empty: there are none, or the
  /// budget is spent.
  std::vector<StageOutline> stages(const Limits& limits, BoundBudget& budget);

 private:
  struct Query;
  /// How a stage came to be the last one in a pipeline.
  struct Step {
    const FloorEntry* entry = nullptr;
    uint32_t first = 0;
  };

  /// Least time from the end of a forward pass before a block until its gradient is back, by block and units left.
  void measure_away(Query& query);
  bool search(const Limits& limits, BoundBudget& budget, std::vector<Step>* last);
  size_t at(uint32_t block, uint32_t units) const { return size_t{block} * (entries_.units() + 1) + units; }

  const StageProblem& problem_;
  FloorEntries entries_;
  Recompute recompute_;
};

}  // namespace rannc::partition
