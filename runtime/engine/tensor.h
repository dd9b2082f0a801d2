/// LibTorch's tensors as values of the runtime, for programs that hand over batches of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/execute/value.h"

namespace rannc::runtime {

/// Wraps a tensor; it must not be changed as long as the value is shared, but for parameters and buffers (Program).
Value to_value(at::Tensor tensor);
/// The tensor of a value made by `to_value`, sharing its memory; undefined for null.
const at::Tensor& to_tensor(const Value& value);

}  // namespace rannc::runtime
