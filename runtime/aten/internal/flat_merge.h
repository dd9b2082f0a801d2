/// Merges calls of one gradient kernel for different operands.
#pragma once

#include "runtime/aten/internal/flat_code.h"

namespace rannc::runtime {

/// Each task calls its gradient kernel for one wanted result. If the kernel has several (a convolution's, a
/// normalization's), nearby calls that differ only in the wanted results are replaced by one call. The sum of the
/// result's gradient that is a bias gradient becomes the third result. Numbers stay those of the kernel.
void merge_gradient_kernels(FlatCode& code);

}  // namespace rannc::runtime
