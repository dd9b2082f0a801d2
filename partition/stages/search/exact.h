/// Implements the exhaustive planner.
#pragma once

#include <cstdint>
#include <memory>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// Judges every plan of a small problem: all cuts, replica counts, micro-batch counts and recompute choices under every
/// schedule whose depths do not depend on times, with stages on consecutive devices. On unequal clusters devices are
/// then exchanged if that helps, which is not exhaustive. Serves as the oracle of the other planners. A problem with
/// more than `most_plans` plans is reported as infeasible, with a lower bound on their number.
std::unique_ptr<StagePlanner> exact_planner(uint64_t most_plans = 1'000'000);

}  // namespace rannc::partition
