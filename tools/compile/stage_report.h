/// Formats stage plans as JSON and as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"
#include "tools/compiler/search_report.h"

namespace rannc::tools {

/// Returns planner, objective, bound and gap, stages, micro-batches, schedule, runners-up and warnings. The gap is null
/// if there is no bound. Stages name the devices of the problem's cluster.
nlohmann::ordered_json stage_plan_json(const partition::StageProblem& problem, const partition::StagePlan& plan,
                                       const SearchReport& report);

/// Returns a line per stage, then the objective and its bound. `block_names` may be empty.
std::string stage_plan_text(const partition::StageProblem& problem, const partition::StagePlan& plan,
                            const std::vector<std::string>& block_names);

/// Prints `warning: …` lines to standard error.
void print_warnings(const std::vector<std::string>& warnings);

}  // namespace rannc::tools
