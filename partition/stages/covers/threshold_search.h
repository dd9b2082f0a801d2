/// Minimises (micro-batches + stages - 1) * (largest forward + largest backward time) over covers exactly.
#pragma once

#include <optional>
#include <stop_token>
#include <vector>

#include "partition/stages/covers/cover.h"

namespace rannc::partition {

/// Lock-step time of fill and drain: the cost of Algorithm 1's value V over a mini-batch.
inline double fill_drain_ns(uint64_t micro_batches, size_t stages, double forward_ns, double backward_ns) {
  return static_cast<double>(micro_batches + stages - 1) * (forward_ns + backward_ns);
}

struct ThresholdAnswer {
  size_t finder = 0;  ///< index of the finder of the cover
  Cover cover;
  double objective = 0;
  double lower_bound = 0;  ///< equals `objective` unless the budget ran out
};

struct SearchBudget {
  uint64_t queries = 1'000'000;  ///< of `CoverFinder::find`, all finders together
  std::stop_token stop = {};     ///< respected after the first cover is found, also within queries
};

/// Returns the best cover over all finders (each with its micro-batch count), or nothing if no cover exists.
///
/// Branch and bound over (stages, forward limit). A box [s1, s2] x [f0, f1] is refuted if even the limits F <= f1, B <=
/// v - f0, F + B <= v, v = target / (MB + s1 - 1), admit no cover with at most s2 stages. A cover that misses the
/// target is excluded from both halves of its box. Targets are lowered by bisection, then by the smallest step, so the
/// result is exact up to a relative 1e-12. One (tf, tb) per state, as printed in the paper, is not optimal.
std::optional<ThresholdAnswer> minimise_fill_drain(const std::vector<CoverFinder*>& finders, StageCount count,
                                                   SearchBudget budget = {});

}  // namespace rannc::partition
