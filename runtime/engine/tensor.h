/// Conversion between LibTorch tensors and runtime values, for programs that provide their own batches.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/execute/value.h"

namespace rannc::runtime {

/// Wraps a tensor. It must not be modified while the value is shared, except parameters and buffers (Program).
Value to_value(at::Tensor tensor);
/// Returns the tensor of a value made by `to_value`, sharing its memory; undefined for null.
const at::Tensor& to_tensor(const Value& value);

}  // namespace rannc::runtime
