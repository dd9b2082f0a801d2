/// Chooses the costs of a plan.
#pragma once

#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Sets `plan.costs` as requested. Measures this machine's processor for `Costs::kMeasured`, which is an error unless
/// the cluster consists of it. Times of an environment price only devices of that environment; all others are priced
/// by the rates of their kind. If `chooses` is not null, gives it the kernels that are fastest by these times; it is
/// `model` itself.
Result<void> add_costs(const RequestedPlan& request, const PreparedModel& model, PreparedModel* chooses,
                       partition::PlanOptions& plan, const CompileProgress& progress);

}  // namespace rannc::tools
