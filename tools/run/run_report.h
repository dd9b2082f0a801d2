/// What a training run leaves for people: a trace and a one-page report.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/execute/trace.h"
#include "tools/run/held_memory.h"

namespace rannc::tools {

/// What is reported of a run.
struct RunFacts {
  std::string title;           ///< model and data, one line
  std::string command;         ///< that made the run
  std::vector<double> losses;  ///< of steps `first_step`, `first_step` + 1 …, those before a resume included
  uint64_t first_step = 0;
  size_t steps = 0;    ///< that this process did: the last of them
  double seconds = 0;  ///< of these
  double samples_per_second = 0;
  double tokens_per_second = 0;  ///< 0: samples have no length
  std::string transport;
  std::vector<HeldMemory> held;  ///< by process
  nlohmann::json profile;        ///< by process, where steps were followed (`step_profile.h`); else null
};

/// The planned step, from simulating the plan's schedule on its own stage times; messages take no time, since the plan
/// does not hold the cluster's links.
Result<std::vector<runtime::PlannedSpan>> planned_spans(const ir::Plan& plan);

/// Median duration of the recorded steps, ns, from the first action to the last; 0 where nothing was recorded.
double measured_step_ns(const std::vector<runtime::ActionRecord>& records);

/// A page without references to other files: loss curve, planned and actual timeline, the cut, memory per device, and
/// predicted against measured step time.
std::string run_report(const ir::Plan& plan, const RunFacts& facts, const std::vector<runtime::ActionRecord>& records,
                       const std::vector<runtime::PlannedSpan>& planned);

}  // namespace rannc::tools
