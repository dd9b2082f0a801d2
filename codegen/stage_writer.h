/// Writes the files of one stage and the state that belongs to no stage.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace rannc::codegen {

/// Writes the program and weights of a stage to an existing folder, named as in a bundle. Weights are copied from the
/// model one at a time. Errors: a weight without bytes, operators without lowering, file system errors.
Result<void> write_stage(const ir::Plan& plan, StageId stage, const std::string& folder);

/// Writes `state.safetensors` with the stored state that no stage reads (`runtime::unread_state`). Writes no file if
/// there is none.
Result<void> write_unread_state(const ir::Plan& plan, const std::string& folder);

}  // namespace rannc::codegen
