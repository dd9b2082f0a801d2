/// Finds the bottleneck of a measured run and estimates remedies.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/execute/trace.h"

namespace rannc::tools {

/// A change and the estimated step time with it.
struct Remedy {
  std::string what;
  double step_ns = 0;
};

struct RunAdvice {
  std::string bottleneck;        ///< a sentence
  double step_ns = 0;            ///< plan's schedule with measured action times and free messages
  std::vector<Remedy> remedies;  ///< the best first; none takes longer than the step, or than what it adds to
};

/// Derives advice from the records of complete steps, which took `measured_ns` each. The first step is ignored if there
/// are others, since it is not representative. The advice is empty if no computation was recorded.
Result<RunAdvice> run_advice(const ir::Plan& plan, const std::vector<runtime::ActionRecord>& records,
                             double measured_ns);

}  // namespace rannc::tools
