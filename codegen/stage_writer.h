/// Writes the files of one stage, and what of the state no stage has.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace rannc::codegen {

/// Program and weights of a stage, named as in a bundle, into an existing folder. Weights are copied from where the
/// model has them, one at a time. Errors: a weight without bytes; operators without lowering; what the file system
/// says.
Result<void> write_stage(const ir::Plan& plan, StageId stage, const std::string& folder);

/// `state.safetensors`: stored values that have a part of the state and that no stage takes; no file where there are
/// none.
Result<void> write_unread_state(const ir::Plan& plan, const std::string& folder);

}  // namespace rannc::codegen
