/// Compares all other planners with an own search, under given schedules.
#pragma once

#include <cstdint>
#include <stop_token>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"
#include "partition/stages/search/auto.h"

namespace rannc::partition {

/// Whether schedule `found` competes with the others.
enum class FoundRows : uint8_t { kNever, kAllowed, kRequired };

/// The search of planner `auto` under `options.schedules`, which do not include `found`.
StageOutcome auto_search(const StageProblem& problem, const AutoOptions& options, FoundRows found,
                         std::stop_token stop);

}  // namespace rannc::partition
