/// Generates random inputs as tensors.
#pragma once

#include <ATen/ATen.h>

#include "runtime/device/device.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Returns the random input for the samples of a call in the memory of `device`, or a single factor 1 if nothing is
/// dropped (evaluation, or a drop rate of 0). An error if its sizes are unknown.
Result<at::Tensor> drawn(const DrawnValue& value, const At& at, const ir::Bindings& bindings, Device& device);

}  // namespace rannc::runtime
