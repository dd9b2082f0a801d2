/// Computes the memory of one replica of a stage, for planners and judge alike.
#pragma once

#include <algorithm>

#include "partition/stages/pricing/range_costs.h"

namespace rannc::partition {

/// Bytes of a replica: a constant part, and a part for each micro-batch in flight.
struct StageBytes {
  double standing = 0;   ///< including the gradients of its parameters
  double in_flight = 0;  ///< from forward to backward pass
  double pending = 0;    ///< from input gradient to weight gradient
  double gradients = 0;  ///< of parameters, allocated in the first backward pass
  double working = 0;    ///< part of `standing` that is in use only while a pass of the stage runs
  double repeated = 0;   ///< part of `working` that an R makes and the I or B after it frees
  double sums = 0;       ///< of gradients over replicas, from the last backward pass on
  double parted = 0;     ///< what an I without its W needs beside `working`

  /// Peak bytes with `held` of `all` micro-batches in flight, or with the last one and the sums. Monotone in `held`.
  double peak(double held, double all) const {
    return std::max(passing_peak(held, all), passing_peak(std::min(held, 1.0), all) + sums);
  }
  /// The same without sums. A stage that holds all micro-batches before its first backward pass has no gradients at
  /// that time, and one micro-batch less afterwards.
  double passing_peak(double held, double all) const {
    if (held < all) return standing + in_flight * held;
    return std::max(standing - gradients + in_flight * all, standing + in_flight * (all - 1));
  }
  /// Bytes that an I adds to its micro-batch until the W.
  double added_by_input_gradient() const { return std::max(0.0, pending - in_flight); }
  /// Peak bytes under zero-bubble schedules. `waiting` more micro-batches still wait for their weight gradients, and
  /// one is about to: what its I adds takes the place of what its R made. The part of its stash that this one frees is
  /// not counted: bounds assume that every micro-batch stays equally large until its end.
  double parted_peak(double held, double waiting) const {
    const double more = added_by_input_gradient(), passing = parted + std::max(0.0, more - repeated);
    const double last = standing + in_flight + passing + sums;
    return std::max(last, standing + in_flight * (held + waiting) + more * waiting + passing);
  }
};

/// Bytes for the blocks [a, b) and micro-batches of which the replica owns `samples`. Permanent: parameters, gradients,
/// optimizer state and buffers. While it works: the gradients or the message of what it sends; the most that a block
/// needs beside the stash, which includes the gradients that it returns; the next incoming message; with recompute, the
/// stash of one micro-batch. A received message becomes part of what is kept. `more`: bytes per sample that a stage
/// keeps under recompute beside what it receives; its R makes that much less.
inline StageBytes stage_bytes(const RangeCosts& ranges, uint32_t a, uint32_t b, double samples, RecomputeRule choice,
                              double more = 0) {
  const double kept = ranges.kept(a, b).at(samples), saved = ranges.saved(a, b).at(samples);
  const double sent = ranges.sent(a, b).at(samples);
  const bool recompute = choice == RecomputeRule::kAlways;
  StageBytes bytes;
  bytes.gradients = ranges.gradients(a, b);
  const double returned = ranges.returned(a, b).at(samples);
  const double temporary = std::max(ranges.temporary(a, b).at(samples), returned);
  bytes.parted = std::max(ranges.parted_temporary(a, b).at(samples), returned) - temporary;
  const double not_kept = std::max(0.0, saved - kept), also_kept = std::min(not_kept, more * samples);
  bytes.repeated = recompute ? not_kept - also_kept : 0;
  bytes.working = temporary + bytes.repeated;
  bytes.standing =
      ranges.resident(a, b) + temporary + sent + std::max(ranges.received(a, b).at(samples), sent) + bytes.repeated;
  bytes.in_flight = recompute ? kept + also_kept : saved;
  bytes.pending = ranges.pending(a, b).at(samples);
  return bytes;
}

/// Returns the bytes of one of `replicas` replicas, which divide the stage's optimizer state if it is sharded, and sum
/// gradients.
inline StageBytes of_replica(StageBytes bytes, const RangeCosts& ranges, uint32_t a, uint32_t b, double replicas) {
  bytes.standing -= ranges.divided(a, b) * (1 - 1 / replicas);
  if (replicas > 1) bytes.sums = ranges.summed_at_once(a, b) * (1 - 1 / replicas);  // `ir::gradient_sum_bytes`
  return bytes;
}

}  // namespace rannc::partition
