/// Masks of random tasks as tensors.
#pragma once

#include <ATen/ATen.h>

#include "runtime/program.h"

namespace rannc::runtime {

/// The mask for the samples of a call; a single one where nothing is dropped (evaluation, or ratio 0). An error where
/// the mask's sizes are not known.
Result<at::Tensor> make_mask(const Mask& mask, const At& at, const ir::Bindings& bindings);

}  // namespace rannc::runtime
