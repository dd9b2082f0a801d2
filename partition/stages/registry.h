/// Creates stage planners by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// Names of all planners, the default first.
std::vector<std::string> stage_planner_names();

/// Names of the planners that contribute candidates to `auto`.
std::vector<std::string> rival_names();

/// Whether `auto` runs this rival on a problem of this size.
bool within_reach(std::string_view name, const StageProblem& problem);

/// Returns the planner with this name, or null.
std::unique_ptr<StagePlanner> make_planner(std::string_view name);

}  // namespace rannc::partition
