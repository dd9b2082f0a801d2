/// Describes a search for a plan beside its result.
#pragma once

#include <string>
#include <vector>

#include "partition/stages/problem/plan.h"

namespace rannc::tools {

/// Facts about a search other than its plan.
struct SearchReport {
  double seconds = 0;                           ///< wall clock
  std::vector<std::string> warnings;            ///< lost exactness or determinism
  bool stopped = false;                         ///< by a limit or a signal; no further planning follows
  std::string prices = "times of the profile";  ///< cost source of objective, bound and gap
  bool measured = false;  ///< the predicted step comes from measured stages, not from these prices
};

/// Returns the notes about lost exactness, and the gap if there is one. Notes that only describe the plan are in
/// `partition::explain`.
std::vector<std::string> warnings_of(const partition::StagePlan& plan);

/// Whether the plan's objective equals its lower bound.
bool is_exact(const partition::StagePlan& plan);

}  // namespace rannc::tools
