/// What bounds a run that was measured, and what would make it faster.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/execute/trace.h"

namespace rannc::tools {

/// A change, and how long a step would take with it.
struct Remedy {
  std::string what;
  double step_ns = 0;
};

struct RunAdvice {
  std::string bottleneck;  ///< a sentence
  double step_ns = 0;      ///< of the plan's schedule with the measured times of its actions, messages for nothing
  std::vector<Remedy> remedies;  ///< the best first
};

/// From the records of whole steps, which took `measured_ns` each; the first is left out where there are others, as it
/// is not like them. Nothing where no computation was recorded.
Result<RunAdvice> run_advice(const ir::Plan& plan, const std::vector<runtime::ActionRecord>& records,
                             double measured_ns);

}  // namespace rannc::tools
