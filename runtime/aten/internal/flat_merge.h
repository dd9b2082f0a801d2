/// Merges calls of one gradient kernel for different operands.
#pragma once

#include "runtime/aten/internal/flat_code.h"

namespace rannc::runtime {

/// A gradient kernel with several results (a convolution's, a normalization's) is called once per wanted operand when
/// input and weight gradients run apart. Where both run in one function, this replaces nearby calls that differ only in
/// the wanted results by one call. The sum of the result's gradient that is a bias gradient becomes the third result.
/// Numbers stay those of the kernel.
void merge_gradient_kernels(FlatCode& code);

}  // namespace rannc::runtime
