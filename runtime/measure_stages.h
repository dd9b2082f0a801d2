/// Times the stages of a bundle on this machine.
#pragma once

#include <vector>

#include "ir/plan.h"
#include "runtime/bundle.h"

namespace rannc::runtime {

/// Forward and backward time, and bytes held between, of every stage at each of the sample counts that
/// `bundle.plan.stage_times` lists; lower quartiles of runs on made-up samples (zeros for integers). Symbols other than
/// the batch take their values from `symbols`. A stage that recomputes runs its forward pass twice; the second counts
/// as backward no more than the plan's simulator expects, so it is left out here.
Result<std::vector<ir::StageTime>> measure_stages(const Bundle& bundle, const ir::Bindings& symbols);

}  // namespace rannc::runtime
