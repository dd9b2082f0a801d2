/// Calls that no core operator is.
#pragma once

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

/// Makes the call a task that LibTorch's dispatcher runs (`frontend/torchscript/foreign.h`). False where that cannot
/// be: the call's failure says why.
bool dispatch(Call& call);

}  // namespace rannc::frontend::torchscript
