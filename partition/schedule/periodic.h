/// Computes periodic schedule patterns (Beaumont, Eyraud-Dubois, Shilova 2021).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"
#include "partition/schedule/generators.h"

namespace rannc::partition {

/// Times of a chain of stages, in any unit.
struct ChainTimes {
  std::vector<double> forward, backward;  ///< by stage
  std::vector<double> hop;                ///< one direction between stages s and s+1; size p−1, or empty: no time
};

/// A 1-periodic pattern: the times of batch 0. Batch i runs i periods later. (The paper's shift is start div period.)
struct Pattern {
  double period = 0;
  std::vector<double> forward_start, forward_end, backward_start, backward_end;  ///< by stage

  /// NCA, concurrent activations of a stage: batches between the start of F and the end of B (3.2).
  uint32_t concurrent(size_t stage) const;
};

/// 1F1B*(T) of a chain (5.1): the least concurrent activations of all stages among 1-periodic patterns of period T,
/// with one stage per device (Theorem 3). A hop between two stages is modelled as a stage that takes as long as the hop
/// in each direction (3.1), and is omitted from the result. Fails if T is less than the load of a stage or link.
Result<Pattern> one_f_one_b_star(const ChainTimes& times, double period);

/// Group numbers of the stages. Groups are filled from the last stage backwards while their load is at most T; group 1
/// is the last.
std::vector<uint32_t> star_groups(std::span<const double> loads, double period);

/// Warm-up depths that keep the slowest stage busy with least memory: the group numbers of 1F1B*(T) at the smallest T.
/// A hop counts as stages of its own, as many as needed for each to stay below T, because messages are pipelined on a
/// link. Without hops and with equal stages this is P_A, with hops P_B; light stages need less. `most`: forwards of
/// each stage that fit in its memory (DAPPLE's D), or empty. Later stages are then limited to the depth before them.
std::vector<uint32_t> warmup_by_latency(const ChainTimes& times, std::span<const uint32_t> most = {});

/// Returns a pattern for any allocation of stages to devices and any routes. Operations are placed in order of data,
/// each at the earliest time at which its devices are free. If gaps are too short, the operations of a device are
/// packed back to back, which always fits. Fails if T is less than the load of a device. Not optimal in activations,
/// which is NP-hard (Theorem 2).
Result<Pattern> allocation_pattern(const ir::PipelineShape& shape, const ChainTimes& times, double period);

/// Largest load of a device, or of a link if hops take time: the smallest possible period.
double smallest_period(const ir::PipelineShape& shape, const ChainTimes& times);

/// Batches per pattern of `k-periodic` if none are specified: one less than the concurrent activations of the first
/// stage under 1F1B*(T), at least one. It is the least reduction that saves memory. A period of 0 is the smallest one.
uint32_t default_k(const ChainTimes& times, double period);

/// Compute rows of the pattern by device, for `shape.micro_batches` batches. With k > 0 every (k+1)-th batch of the
/// unrolled pattern is omitted (Theorem 4): k batches per k+1 periods, and at most k concurrent activations if stages
/// are equal and k is less than their number.
Rows pattern_rows(const ir::PipelineShape& shape, const Pattern& pattern, uint32_t k = 0);

}  // namespace rannc::partition
