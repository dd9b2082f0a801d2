/// Formats stage plans as JSON and as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::tools {

/// Facts about a search other than its plan.
struct SearchReport {
  double seconds = 0;                           ///< wall clock
  std::vector<std::string> warnings;            ///< lost exactness or determinism
  bool stopped = false;                         ///< by a limit or a signal; no further planning follows
  std::string prices = "times of the profile";  ///< cost source of objective, bound and gap
  bool measured = false;  ///< the predicted step comes from measured stages, not from these prices
};

/// Returns the plan's notes about lost exactness, without those that describe the plan, and the gap if there is one.
std::vector<std::string> warnings_of(const partition::StagePlan& plan);

/// Whether the plan's objective equals its lower bound.
bool is_exact(const partition::StagePlan& plan);

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
