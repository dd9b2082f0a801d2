/// The variants of kernels.h that this processor runs.
#pragma once

#include <vector>

#include "tests/codegen/native/kernels.h"

namespace rannc::native_kernels {

/// Those that the compiler could build and the processor can run, the baseline first.
std::vector<const Kernels*> usable_variants();

}  // namespace rannc::native_kernels
