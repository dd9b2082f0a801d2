/// Completes a plan whose cut and schedule are given.
#pragma once

#include <variant>

#include "partition/model/given_plan.h"
#include "partition/model/model_facts.h"
#include "partition/model/plan_model.h"
#include "partition/model/plan_options.h"

namespace rannc::partition {

/// Returns the blocks of a given plan.
Result<BlockedModel> blocks_of(const GivenPlan& given, const PlanOptions& options, const ModelFacts& facts);

/// Returns the stages of a given plan over its blocks, without numbers.
StagePlan stages_of(const GivenPlan& given);

/// Finishes the plan `requested.given`. `Infeasible` if a device holds less than the plan needs.
Result<std::variant<PlannedModel, Infeasible>> plan_given(const PlanOptions& requested, const ModelFacts& facts);

}  // namespace rannc::partition
