/// Runs one worker of a run and reports its failure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ir/base/diagnostic.h"
#include "tools/common/worker_environment.h"

namespace rannc::tools {

/// The text of an error without its severity: `worker <rank>: …`, or what names a worker already.
std::string worker_report(const Diagnostic& why, uint32_t rank);

/// Runs `body` as that worker. An error is reported once, with the worker's rank: by rannc's launcher if it started
/// this process, else on standard error. Then `Exit` is thrown, with code 70 for exceptions, which are defects of
/// rannc.
void run_as_worker(const WorkerEnvironment& worker, const std::function<Result<void>()>& body);

}  // namespace rannc::tools
