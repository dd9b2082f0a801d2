/// Where a stage's signature lies in its functions.
#pragma once

#include "runtime/execute/signature.h"
#include "runtime/flat/stage_programs.h"

namespace rannc::runtime {

/// Matches a signature with the stage's functions. `tasks` are the stage's tasks in the plan.
StagePlaces places_of(const Signature& signature, const ir::Joint& joint, const std::vector<TaskId>& tasks);

/// The tasks of a joint graph that need sums over the replicas of their stage, each with the number of its
/// normalization in the stage. They are synchronised normalizations and the gradients of their normalized operands.
/// Gradients of scale and bias are summed at the end of the step, as all parameter gradients are.
std::map<TaskId, size_t> replica_sums(const ir::Joint& joint);

}  // namespace rannc::runtime
