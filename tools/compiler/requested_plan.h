/// Converts the options of `rannc/compiler/plan_options.h` to a request for a plan.
#pragma once

#include <functional>

#include "rannc/compiler/plan_options.h"
#include "tools/compiler/plan_request.h"

namespace rannc::tools {

/// Share of a stage's time that `Recompute::kSelective` may recompute by default, in percent.
constexpr double kRecomputeBudget = 5;

/// Describes the GPUs of this machine, for `local:cuda`; empty in programs that cannot open them.
using LocalGpus = std::function<Result<partition::Cluster>()>;

/// Checks the options (`checked`) and converts them. Reads cluster and schedule files. Workers of `local:N` have
/// `memory_bytes` or, by default, their share of this machine's memory (`worker_memory_bytes`).
Result<PlanRequest> plan_request(const compiler::PlanOptions& options, const LocalGpus& local_gpus = {});

}  // namespace rannc::tools
