/// LibTorch's tensors as values of the runtime.
#pragma once

#include <ATen/ATen.h>

#include "runtime/value.h"

namespace rannc::runtime {

/// Wraps a tensor; it must not be changed as long as the value is shared, but for parameters and buffers (Program).
Value to_value(at::Tensor tensor);
/// The tensor of a value made by `to_value`; undefined for null.
const at::Tensor& to_tensor(const Value& value);

at::ScalarType to_scalar_type(ir::DType dtype);
/// The element type, or an error for complex, quantized and other kinds that no model of ours has.
Result<ir::DType> to_dtype(at::ScalarType type);

}  // namespace rannc::runtime
