/// Where a stage's signature lies in its functions.
#pragma once

#include "runtime/aten/stage_programs.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Matches a signature with the stage's functions. `tasks` are the stage's tasks in the plan.
StagePlaces places_of(const Signature& signature, const ir::Joint& joint, const std::vector<TaskId>& tasks);

}  // namespace rannc::runtime
