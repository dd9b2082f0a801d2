/// Writes the one-page report of a training run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/execute/trace.h"
#include "tools/run/held_memory.h"
#include "tools/run/link_report.h"

namespace rannc::tools {

/// Input to the report of a run.
struct RunFacts {
  std::string title;           ///< model and data, one line
  std::string command;         ///< command that started the run
  std::vector<double> losses;  ///< of steps `first_step`, `first_step` + 1 …, those before a resume included
  uint64_t first_step = 0;
  std::vector<std::pair<uint64_t, double>> validation;  ///< losses by number of steps done, of this run
  size_t steps = 0;                                     ///< steps that this process ran, the last ones of the run
  double seconds = 0;                                   ///< duration of these steps
  uint64_t tokens = 0;                                  ///< per step
  uint64_t mini_batches = 1;                            ///< per step
  double samples_per_second = 0;
  double tokens_per_second = 0;  ///< 0 if samples have no length
  std::string transport;
  bool explains = false;         ///< print planned beside measured times
  std::vector<HeldMemory> held;  ///< by process
  LinkTraffic links;             ///< of the last step; empty if none ran
  nlohmann::json profile;        ///< by process, if steps were profiled (`step_profile.h`); else null
};

/// Returns the planned step by simulating the plan's schedule with its stage times. Messages take no time, since the
/// plan does not contain the cluster's links.
Result<std::vector<runtime::PlannedSpan>> planned_spans(const ir::Plan& plan);

/// Median duration of the recorded steps in ns, from the first action to the last; 0 if nothing was recorded.
double measured_step_ns(const std::vector<runtime::ActionRecord>& records);

/// Returns a self-contained HTML page: loss curve, planned and actual timeline, the cut, memory per device,
/// bytes per link, and predicted and measured step time.
std::string run_report(const ir::Plan& plan, const RunFacts& facts, const std::vector<runtime::ActionRecord>& records,
                       const std::vector<runtime::PlannedSpan>& planned);

}  // namespace rannc::tools
