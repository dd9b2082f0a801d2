/// Stage plans as scripts and people read them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::tools {

/// How a search went, beside what it found.
struct SearchReport {
  double seconds = 0;                           ///< wall clock
  std::vector<std::string> warnings;            ///< where exactness or determinism was given up
  bool stopped = false;                         ///< by a limit or a signal: nothing else is planned after it
  std::string prices = "times of the profile";  ///< what objective, bound and gap hold for
  bool measured = false;  ///< the predicted step is of stages measured as they run, not at these prices
};

/// Those of a plan's notes that tell of exactness given up, not what merely describes the plan; the gap where one is
/// left.
std::vector<std::string> warnings_of(const partition::StagePlan& plan);

/// Whether the plan's objective equals its lower bound.
bool is_exact(const partition::StagePlan& plan);

/// Planner, objective, bound and gap, stages, micro-batches, schedule, runners-up, warnings. A gap without a bound is
/// null. Stages name the devices of the problem's cluster.
nlohmann::ordered_json stage_plan_json(const partition::StageProblem& problem, const partition::StagePlan& plan,
                                       const SearchReport& report);

/// A line per stage, then the objective beside its bound. `block_names` may be empty.
std::string stage_plan_text(const partition::StageProblem& problem, const partition::StagePlan& plan,
                            const std::vector<std::string>& block_names);

/// `warning: …` on standard error, a line each.
void print_warnings(const std::vector<std::string>& warnings);

}  // namespace rannc::tools
