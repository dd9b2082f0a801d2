/// Checks the options of `rannc/compiler/plan_options.h`.
#pragma once

#include "ir/base/diagnostic.h"
#include "rannc/compiler/plan_options.h"

namespace rannc::tools {

/// Returns the options with `stages` derived from `replicas` or `warm_up`. Fails if options contradict each other or
/// are out of range, and names them by their flags. Reads no file.
Result<compiler::PlanOptions> checked(compiler::PlanOptions options);

}  // namespace rannc::tools
