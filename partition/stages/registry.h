/// Stage planners by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// All names, the default first.
std::vector<std::string> stage_planner_names();

/// Those that hand candidates to `auto`.
std::vector<std::string> rival_names();

/// Whether `auto` asks that rival on a problem of this size.
bool within_reach(std::string_view name, const StageProblem& problem);

/// The planner of that name, or null.
std::unique_ptr<StagePlanner> make_planner(std::string_view name);

}  // namespace rannc::partition
