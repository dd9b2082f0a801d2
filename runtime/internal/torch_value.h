/// Sums and memory of LibTorch tensors.
#pragma once

#include <ATen/ATen.h>

#include "runtime/aten/torch_types.h"
#include "runtime/engine/tensor.h"

namespace rannc::runtime {

/// Implements `Payload::sum` for tensors.
at::Tensor sum_in_order(std::span<const at::Tensor> terms);

/// Returns a contiguous tensor in host memory. Waits for the device, whose work must be enqueued on the current stream
/// or done.
at::Tensor on_host(const Value& value);
/// Replaces the elements of a contiguous tensor on any device. Waits for the copy.
void overwrite(const at::Tensor& tensor, std::span<const std::byte> bytes);

/// Returns the element type, or an error for unsupported types such as complex and quantized ones.
Result<ir::DType> to_dtype(at::ScalarType type);

}  // namespace rannc::runtime
