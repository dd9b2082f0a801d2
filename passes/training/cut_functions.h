/// Cuts the stages of a plan into forward and backward functions.
#pragma once

#include "ir/plan/functions.h"

namespace rannc::passes {

/// Differentiates each stage between its neighbors and sets `Plan::functions`. A stage with recompute keeps its inputs.
///
/// Runs after planning, on a plan that is complete. Changes nothing else. Linear in the plan. A diagnostic names a
/// value whose gradient would mix the samples of a micro-batch.
Result<void> cut_functions(ir::Plan& plan);

}  // namespace rannc::passes
