/// One worker of a run: how it says that it failed.
#pragma once

#include <functional>

#include "ir/base/diagnostic.h"
#include "tools/run/worker_environment.h"

namespace rannc::tools {

/// Runs `body` as that worker. What is wrong is said once, with the worker's rank: by our launcher, where it started
/// this process, else on standard error. Then `Exit` is thrown, with code 70 for exceptions, which are our defects.
void run_as_worker(const WorkerEnvironment& worker, const std::function<Result<void>()>& body);

}  // namespace rannc::tools
