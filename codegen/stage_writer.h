/// Writes the files of one stage and the state that belongs to no stage.
#pragma once

#include <string>

#include "codegen/native_source.h"
#include "ir/plan/plan.h"

namespace rannc::codegen {

/// The functions write to an existing folder, under the names in a bundle.

/// Writes the C++ source of a stage. Errors: those of `native_source`, file system errors.
Result<void> write_native_source(const ir::Plan& plan, StageId stage, NativeOptions options, const std::string& folder);

/// Writes the weights of a stage, copied from the model one at a time. Errors: a weight without bytes, file system
/// errors.
Result<void> write_weights(const ir::Plan& plan, StageId stage, const std::string& folder);

/// Writes `state.safetensors` with the stored state that no stage reads (`runtime::unread_state`). Writes no file if
/// there is none.
Result<void> write_unread_state(const ir::Plan& plan, const std::string& folder);

}  // namespace rannc::codegen
