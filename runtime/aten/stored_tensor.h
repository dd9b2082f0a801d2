/// Conversion between stored tensors and LibTorch tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/graph/constant.h"

namespace rannc::runtime {

/// Returns a tensor with a copy of the bytes. Errors: the shape has symbols, or the bytes do not match the type.
Result<at::Tensor> to_tensor(const ir::StoredTensor& stored);
/// Returns the tensor's bytes with `type`, whose shape is replaced by the tensor's. An error if element types differ.
Result<ir::StoredTensor> to_stored(const at::Tensor& tensor, ir::ValueType type);

}  // namespace rannc::runtime
