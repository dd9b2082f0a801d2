/// Identifies the programs of runs of tasks.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/structure.h"
#include "ir/plan/plan.h"

namespace rannc::partition {

/// Digest of the structural keys of `tasks` (ascending) and of their wiring, without names: equal layers have equal
/// keys. `roles` are the graph's, by value (`ir::gradient_roles`).
std::string program_key(const ir::Graph& graph, const ir::Atoms& atoms, const std::vector<TaskId>& tasks,
                        const std::vector<ir::GradientRole>& roles);

/// The same for a stage, with the values that it keeps for an R. Stages with equal keys run equal programs.
std::string stage_key(const ir::Plan& plan, StageId stage, const std::vector<ir::GradientRole>& roles);

}  // namespace rannc::partition
