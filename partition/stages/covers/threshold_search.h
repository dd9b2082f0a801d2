/// Exact minimum of (micro-batches + stages - 1) * (largest forward + largest backward time) over covers.
#pragma once

#include <optional>
#include <stop_token>
#include <vector>

#include "partition/stages/covers/cover.h"

namespace rannc::partition {

/// Lock-step time of fill and drain: what Algorithm 1's value V costs over a mini-batch.
inline double fill_drain_ns(uint64_t micro_batches, size_t stages, double forward_ns, double backward_ns) {
  return static_cast<double>(micro_batches + stages - 1) * (forward_ns + backward_ns);
}

struct ThresholdAnswer {
  size_t finder = 0;  ///< index of the finder that gave the cover
  Cover cover;
  double objective = 0;
  double lower_bound = 0;  ///< equals `objective` unless the budget ran out
};

struct SearchBudget {
  uint64_t queries = 1'000'000;  ///< of `CoverFinder::find`, all finders together
  std::stop_token stop = {};     ///< respected once there is a first cover, within queries too
};

/// The best cover over all finders (each with its micro-batch count), or nothing where no cover exists.
///
/// Branch and bound over (stages, forward limit): a box [s1, s2] x [f0, f1] is refuted when even the limits
/// F <= f1, B <= v - f0, F + B <= v, v = target / (MB + s1 - 1), admit no cover with at most s2 stages; a cover that
/// misses the target is cut out of both halves of its box. Targets are lowered by bisection, then by the smallest step,
/// so the answer is exact up to a relative 1e-12. Research: one (tf, tb) per state, as printed, is not optimal.
std::optional<ThresholdAnswer> minimise_fill_drain(const std::vector<CoverFinder*>& finders, StageCount count,
                                                   SearchBudget budget = {});

}  // namespace rannc::partition
