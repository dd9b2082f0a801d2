/// Conversion of IR element types to LibTorch's.
#pragma once

#include <c10/core/ScalarType.h>

#include "ir/graph/type.h"

namespace rannc::runtime {

inline c10::ScalarType scalar_type(ir::DType dtype) { return static_cast<c10::ScalarType>(ir::torch_number(dtype)); }

/// Returns the type in which gradients of tensors of `type` are summed (`ir::sum_dtype`).
inline c10::ScalarType sum_type(c10::ScalarType type) {
  const auto dtype = ir::dtype_of_torch(static_cast<int>(type));
  return dtype ? scalar_type(ir::sum_dtype(*dtype)) : type;
}

}  // namespace rannc::runtime
