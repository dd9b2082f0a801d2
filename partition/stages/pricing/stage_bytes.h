/// What one replica of a stage holds in memory: the one place where planners and judge learn it.
#pragma once

#include <algorithm>

#include "partition/stages/pricing/range_costs.h"

namespace rannc::partition {

/// Bytes of a replica: some whatever is in flight, some for each micro-batch in flight.
struct StageBytes {
  double standing = 0;   ///< with the gradients of its parameters
  double in_flight = 0;  ///< from forward to backward pass
  double pending = 0;    ///< from input gradient to weight gradient
  double gradients = 0;  ///< of parameters, which are there from the first backward pass on

  /// With `held` of `all` micro-batches in flight. A stage that holds all of them before its first backward pass has no
  /// gradient then, and one micro-batch less afterwards. Grows with `held`.
  double peak(double held, double all) const {
    if (held < all) return standing + in_flight * held;
    return std::max(standing - gradients + in_flight * all, standing + in_flight * (all - 1));
  }
  /// Under zero-bubble schedules: `waiting` more micro-batches still owe their weight gradients, and one is about to.
  /// That one frees part of its stash is not counted: bounds take every micro-batch for as large until its end.
  double parted_peak(double held, double waiting) const {
    const double more = std::max(0.0, pending - in_flight);
    return standing + in_flight * (held + waiting) + more * (waiting + 1);
  }
};

/// Of the blocks [a, b), for micro-batches of which the replica owns `samples`. Always there: parameters, gradients,
/// optimizer state and buffers; while it works: the gradients or the message of what it sends, and the largest
/// temporary, of which the gradients that it returns are part; the next message in; with recompute the stash of one
/// micro-batch. A received message becomes part of what is kept.
inline StageBytes stage_bytes(const RangeCosts& ranges, uint32_t a, uint32_t b, double samples, RecomputeRule choice) {
  const double kept = ranges.kept(a, b).at(samples), saved = ranges.saved(a, b).at(samples);
  const double sent = ranges.sent(a, b).at(samples);
  const bool recompute = choice == RecomputeRule::kAlways;
  StageBytes bytes;
  bytes.gradients = ranges.gradients(a, b);
  bytes.standing = ranges.resident(a, b) +
                   std::max(ranges.temporary(a, b).at(samples), ranges.returned(a, b).at(samples)) + sent +
                   std::max(ranges.received(a, b).at(samples), sent) + (recompute ? std::max(0.0, saved - kept) : 0);
  bytes.in_flight = recompute ? kept : saved;
  bytes.pending = ranges.pending(a, b).at(samples);
  return bytes;
}

}  // namespace rannc::partition
