/// Runs one worker of a run and reports its failure.
#pragma once

#include <functional>

#include "ir/base/diagnostic.h"
#include "tools/common/worker_environment.h"

namespace rannc::tools {

/// Runs `body` as that worker. An error is reported once, with the worker's rank: by rannc's launcher if it started
/// this process, else on standard error. Then `Exit` is thrown, with code 70 for exceptions, which are defects of
/// rannc.
void run_as_worker(const WorkerEnvironment& worker, const std::function<Result<void>()>& body);

}  // namespace rannc::tools
