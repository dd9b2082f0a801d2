/// Computes a lower bound on the largest load from the cost of the chain stretch that a device holds.
#pragma once

#include <cstdint>
#include <stop_token>

#include "partition/reference/split_problem.h"

namespace rannc::partition {

/// Returns the least T >= `known` for which stretches of one chain could be distributed over `devices` with loads <= T,
/// by bisection to a relative 1e-6. Returns `upper`, the load of a known split, if even T = `upper` is impossible.
/// Loads of stretches are minimum cuts, two for each of at most about `most_stretches`. A longer chain is thinned out,
/// which weakens the bound. Returns `known` once `stop` is requested.
double stretch_bound(const SplitProblem& problem, uint32_t devices, double known, double upper,
                     size_t most_stretches = 4'000, std::stop_token stop = {});

}  // namespace rannc::partition
