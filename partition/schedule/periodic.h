/// Periodic patterns: schedules that repeat one piece of time for ever (Beaumont, Eyraud-Dubois, Shilova 2021).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"
#include "partition/schedule/generators.h"

namespace rannc::partition {

/// Times of a chain of stages, in any one unit.
struct ChainTimes {
  std::vector<double> forward, backward;  ///< by stage
  std::vector<double> hop;                ///< one way between stage s and s+1; size p−1, or empty: no time
};

/// A 1-periodic pattern: when batch 0 runs; batch i runs i periods later. (The paper's shift is start div period.)
struct Pattern {
  double period = 0;
  std::vector<double> forward_start, forward_end, backward_start, backward_end;  ///< by stage

  /// NCA, concurrent activations of a stage: batches between the start of F and the end of B (3.2).
  uint32_t concurrent(size_t stage) const;
};

/// 1F1B*(T) of a chain (5.1): least concurrent activations of all stages among 1-periodic patterns of period T, one
/// stage per device (Theorem 3). A hop between two stages is a stage of its own that takes as long as the hop in each
/// direction (3.1); it is left out of the result. Fails if T is less than the load of a stage or link.
Result<Pattern> one_f_one_b_star(const ChainTimes& times, double period);

/// Group numbers of the stages: filled from the last stage backwards while their load is at most T; 1 is the last.
std::vector<uint32_t> star_groups(std::span<const double> loads, double period);

/// Warm-up depths that keep the slowest stage busy with least memory: the group numbers of 1F1B*(T) at the smallest T,
/// where a hop counts as stages of its own (as many as it takes for each to stay below T: messages follow each other on
/// a link). Without hops and with equal stages this is P_A, with hops P_B; light stages need less. `most`: forwards of
/// each stage that fit in its memory (DAPPLE's D), or empty; later stages are then held to the depth before them.
std::vector<uint32_t> warmup_by_latency(const ChainTimes& times, std::span<const uint32_t> most = {});

/// A pattern for any allocation of stages to devices and any routes: operations in order of data, each at the earliest
/// time at which its devices are free; where holes are too short for that, the operations of a device are packed one
/// behind the other, which always fits. Fails if T is less than the load of a device. Not optimal in activations, which
/// is NP-hard (Theorem 2).
Result<Pattern> allocation_pattern(const ir::PipelineShape& shape, const ChainTimes& times, double period);

/// Largest load of a device, or of a link where hops take time: the smallest period that is possible.
double smallest_period(const ir::PipelineShape& shape, const ChainTimes& times);

/// Compute rows of the pattern by device, for `shape.micro_batches` batches. With k > 0 every (k+1)-th batch of the
/// unrolled pattern is left out (Theorem 4): k batches per k+1 periods, at most k concurrent activations where stages
/// are equal and k is less than their number.
Rows pattern_rows(const ir::PipelineShape& shape, const Pattern& pattern, uint32_t k = 0);

}  // namespace rannc::partition
