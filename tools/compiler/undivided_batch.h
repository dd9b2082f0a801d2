/// Handles models whose mini-batches cannot be divided because samples interact.
#pragma once

#include <optional>
#include <string>

#include "ir/graph/graph.h"
#include "partition/model/plan_model.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Explains why the mini-batches of `model`, of so many samples, cannot be divided, and what would make them divisible.
std::string why_whole(const PreparedModel& model, const Diagnostic& why, uint32_t samples);

/// Returns an error at the task that mixes samples if `options` request several micro-batches or replicas of such a
/// model. [P15]
Result<void> check_undivided(const PreparedModel& model, const partition::PlanOptions& options);

}  // namespace rannc::tools
