/// Plans that were saved as text, and perhaps edited by hand.
#pragma once

#include <string>

#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Makes `request` ask for the plan in the file `path`, a text of `rannc-compile --emit plan`, and gives `model` the
/// kernels of that plan. What follows from a plan's cut is computed anew. Errors: the file is no plan, or its cut
/// breaks a rule; it was made for another model file, other passes or another cluster.
Result<void> use_saved_plan(const std::string& path, RequestedPlan& request, PreparedModel& model);

/// Makes `request` ask for a plan near that of the bundle at `path`, of which `request` has the model.
Result<void> start_from_bundle(const std::string& path, RequestedPlan& request);

}  // namespace rannc::tools
