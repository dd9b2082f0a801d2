/// Gathers what the processes of a run measured and writes its reports.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "runtime/execute/trace.h"
#include "runtime/train/trainer.h"
#include "tools/measure/step_profile.h"
#include "tools/run/held_memory.h"
#include "tools/run/link_report.h"
#include "tools/run/run_report.h"

namespace rannc::tools {

/// Measurements of all processes.
struct RunResults {
  std::vector<runtime::ActionRecord> records;
  std::vector<HeldMemory> held;  ///< of processes that measured it
  LinkTraffic links;             ///< of the last step
  nlohmann::json profile;        ///< by process; null if steps were not profiled
};

/// Measurements of one process.
struct OwnResults {
  const runtime::TraceRecorder& recorder;
  const StepProfile* profile = nullptr;  ///< null if steps were not profiled
  std::optional<HeldMemory> held;
  LinkTraffic links;
};

/// Returns the measurements of all processes in worker 0. Collective, see `Trainer::gather`.
Result<RunResults> gather_results(runtime::Trainer& trainer, const OwnResults& own);

/// Writes `trace.json`, `report.html` and, if steps were profiled, `profile.json` to the folder. Prints the losses, the
/// speed and the profile. `facts` has everything but measurements and rates.
Result<void> write_results(const ir::Plan& plan, const RunResults& results, RunFacts facts,
                           const std::filesystem::path& folder);

}  // namespace rannc::tools
