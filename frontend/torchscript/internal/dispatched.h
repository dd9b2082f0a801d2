/// Translates calls that have no core operator.
#pragma once

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

/// Turns the call into a task that LibTorch's dispatcher runs (`frontend/torchscript/foreign.h`). Returns false if that
/// is impossible; the call's failure is the reason.
bool dispatch(Call& call);

}  // namespace rannc::frontend::torchscript
