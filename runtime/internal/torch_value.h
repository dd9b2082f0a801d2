/// Element types of the language as LibTorch calls them.
#pragma once

#include <ATen/ATen.h>

#include "runtime/tensor.h"

namespace rannc::runtime {

at::ScalarType to_scalar_type(ir::DType dtype);
/// The element type, or an error for complex, quantized and other kinds that no model of ours has.
Result<ir::DType> to_dtype(at::ScalarType type);

}  // namespace rannc::runtime
