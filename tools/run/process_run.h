/// Trains or evaluates with one process of a run.
#pragma once

#include <optional>
#include <string>

#include "ir/base/diagnostic.h"
#include "runtime/execute/executor.h"
#include "runtime/transport/transports.h"
#include "tools/common/worker_environment.h"
#include "tools/run/kept_flags.h"
#include "tools/run/run_flags.h"

namespace rannc::tools {

/// The program that contains a process of a run.
struct RunCaller {
  std::string command;                    ///< started the run, for reports
  runtime::Observer* observer = nullptr;  ///< `RunProgram::observer`
  KeptFlags kept;                         ///< differences from the run that is resumed
};

/// Runs one process's part of a run: all devices of the plan, or the device of `worker`. Throws `Exit` if a signal
/// ended the run before its last step.
Result<void> run_process(const RunFlags& flags, const runtime::TransportKind& transport,
                         const std::optional<WorkerEnvironment>& worker, const RunCaller& caller);

}  // namespace rannc::tools
