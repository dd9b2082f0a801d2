/// What the runtime knows of LibTorch's tensors: element types, sums.
#pragma once

#include <ATen/ATen.h>

#include "runtime/engine/tensor.h"

namespace rannc::runtime {

/// `Payload::sum` of tensors.
at::Tensor sum_in_order(std::span<const at::Tensor> terms);

at::ScalarType to_scalar_type(ir::DType dtype);
/// `ir::sum_dtype`: in which gradients of tensors of this type are summed.
at::ScalarType sum_type(at::ScalarType type);
/// The element type, or an error for complex, quantized and other kinds that no model of ours has.
Result<ir::DType> to_dtype(at::ScalarType type);

}  // namespace rannc::runtime
