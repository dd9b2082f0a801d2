/// Cuts the stages of a plan into forward and backward functions.
#pragma once

#include <functional>

#include "ir/plan/functions.h"
#include "ir/plan/stage_graph.h"

namespace rannc::passes {

/// Chooses the values that a stage with recompute keeps, ascending, from its joint graph.
using ChooseKept = std::function<Result<std::vector<ValueId>>(StageId stage, const ir::Joint& joint)>;

/// Differentiates each stage between its neighbors and sets `Plan::functions`. A stage with recompute keeps its inputs.
///
/// Runs after planning, on a plan that is complete. Changes nothing else. Linear in the plan. A diagnostic names a
/// value whose gradient would mix the samples of a micro-batch.
Result<void> cut_functions(ir::Plan& plan);

/// The same with a choice of what each stage with recompute keeps, such as by `SelectiveRecompute`. A choice that R
/// cannot start from is a diagnostic with rule H5.
Result<void> cut_functions(ir::Plan& plan, const ChooseKept& choose);

/// The functions of one stage, without an R.
Result<ir::StageFunctions> cut_functions(const ir::StageGraph& stage);

}  // namespace rannc::passes
