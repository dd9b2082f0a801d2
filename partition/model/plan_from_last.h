/// Plans a model again from its last plan, after devices were lost.
#pragma once

#include <variant>

#include "partition/model/model_facts.h"
#include "partition/model/plan_model.h"
#include "partition/model/plan_options.h"
#include "partition/model/sharded_stages.h"

namespace rannc::partition {

/// Chooses stages near those of `options.last` over its blocks, and finishes them. `memory`: limits by kind of device,
/// which the finished plan may exceed (`overfull`). `Infeasible` if no plan near the last one fits.
Result<std::variant<PlannedModel, Infeasible>> plan_from_last(const PlanOptions& options, const ModelFacts& facts,
                                                              const KindMemory& memory);

}  // namespace rannc::partition
