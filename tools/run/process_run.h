/// Trains or evaluates with one process of a run.
#pragma once

#include <optional>
#include <string>

#include "ir/base/diagnostic.h"
#include "runtime/transport/transports.h"
#include "tools/common/worker_environment.h"
#include "tools/run/run_flags.h"

namespace rannc::tools {

/// Runs one process's part of a run: all devices of the plan, or the device of `worker`. `command` started the run, for
/// reports. Throws `Exit` if a signal ended the run before its last step.
Result<void> run_process(const RunFlags& flags, const runtime::TransportKind& transport,
                         const std::optional<WorkerEnvironment>& worker, const std::string& command);

}  // namespace rannc::tools
