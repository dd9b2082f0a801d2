/// Stored bytes as tensors, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/graph/constant.h"

namespace rannc::runtime {

/// A copy of the bytes. An error where the shape has symbols or the bytes do not fit the type.
Result<at::Tensor> to_tensor(const ir::StoredTensor& stored);
/// The tensor's bytes under a type of its element type; the shape becomes the tensor's.
Result<ir::StoredTensor> to_stored(const at::Tensor& tensor, ir::ValueType type);

}  // namespace rannc::runtime
