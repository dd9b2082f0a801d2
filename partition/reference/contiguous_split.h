/// Solves the contiguous split heuristically or exactly, with a proven bound in both cases.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "partition/reference/split_problem.h"

namespace rannc::partition {

struct SplitOptions {
  uint32_t devices = 1;
  bool exact = false;              ///< search until optimality is proven, or `max_down_sets`, or 4e11 pairs of them
  size_t max_down_sets = 250'000;  ///< limit of the complete enumeration; exact mode uses 2,000,000
  double seconds = 0;              ///< wall-clock limit, 0: none; not deterministic if it is reached
  std::stop_token stop = {};       ///< ends the search before its next step
};

struct SplitResult {
  std::optional<std::vector<uint32_t>> device_of;  ///< per node of the source (`unit_of`)
  std::string reason;                              ///< why there is no split
  double largest_load = 0;
  double lower_bound = 0;  ///< no legal split has a smaller largest load
  std::string bound;       ///< argument of the bound: work | heaviest | device | cuts | stretches | exhaustive
  bool timed_out = false;
  double gap() const { return largest_load > lower_bound ? 1 - lower_bound / largest_load : 0; }
};

/// Steps: reduce the problem; cut several orders; improve over a pool of cheap down-sets; if all down-sets can be
/// enumerated, find the exact chain, else compute a bound from minimum cuts. Deterministic without a time limit.
SplitResult solve_split(const SplitProblem& problem, const SplitOptions& options);

}  // namespace rannc::partition
