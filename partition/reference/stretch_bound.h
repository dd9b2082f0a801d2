/// Lower bound on the largest load from what a device must pay for the stretch of a chain that it holds.
#pragma once

#include <cstdint>
#include <stop_token>

#include "partition/reference/split_problem.h"

namespace rannc::partition {

/// The least T >= `known` for which stretches of one chain could be shared out to `devices` with loads <= T, by
/// bisection to 1e-6 of it; `upper`, the load of a known split, where not even T = `upper` is possible. Loads of
/// stretches are minimum cuts, two for each of at most about `most_stretches`; a longer chain is thinned out, which
/// weakens the bound. Once `stop` is requested it is `known`.
double stretch_bound(const SplitProblem& problem, uint32_t devices, double known, double upper,
                     size_t most_stretches = 4'000, std::stop_token stop = {});

}  // namespace rannc::partition
