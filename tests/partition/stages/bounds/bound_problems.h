/// Small problems whose every plan is known, to hold bounds against.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "partition/stages/problem/problem.h"

namespace rannc::partition::testing {

/// Stashes that matter, few devices that hold them all, and backward passes in two parts.
StageProblem tight_problem(std::mt19937_64& random, bool unequal);
/// Links so slow that messages matter, with any objective that prices them, one micro-batch count, enough memory.
StageProblem slow_links_problem(std::mt19937_64& random, bool unequal);

/// Least objective over every plan of the oracle under every schedule that is judged, by stages and by devices.
std::optional<double> least_of_all_plans(const StageProblem& problem, std::mt19937_64& random);

struct Tightness {
  int feasible = 0, uniform = 0;     ///< instances with a plan; of them, those with equal devices and links
  int close = 0, uniform_close = 0;  ///< those whose bound is within 10 % of the least objective
  std::vector<int> broken;           ///< instances whose bound exceeds some plan
};
using MakeProblem = std::function<StageProblem(std::mt19937_64&, bool unequal)>;
Tightness compare_bounds(const MakeProblem& make, int instances);

}  // namespace rannc::partition::testing
