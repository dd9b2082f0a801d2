/// The planner that tries everything.
#pragma once

#include <cstdint>
#include <memory>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// Judges every plan of a small problem: all cuts, replica counts, micro-batch counts and recompute choices under every
/// schedule whose depths do not depend on times, stages on consecutive devices (unequal clusters: then exchanged where
/// that helps, which is no longer exhaustive). The oracle of the other planners. A problem with more than `most_plans`
/// plans is refused as infeasible for it, with how many there are at least.
std::unique_ptr<StagePlanner> exact_planner(uint64_t most_plans = 1'000'000);

}  // namespace rannc::partition
