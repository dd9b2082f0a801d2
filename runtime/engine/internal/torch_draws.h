/// Draws as tensors.
#pragma once

#include <ATen/ATen.h>

#include "runtime/execute/program.h"

namespace rannc::runtime {

/// The numbers for the samples of a call; a single factor 1 where nothing is dropped (evaluation, or a share of 0). An
/// error where the draw's sizes are not known.
Result<at::Tensor> drawn(const DrawnValue& value, const At& at, const ir::Bindings& bindings);

}  // namespace rannc::runtime
