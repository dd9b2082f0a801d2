/// Conversion between types of the IR and of LibTorch.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "ir/base/device_type.h"
#include "ir/graph/type.h"

namespace rannc::runtime {

inline c10::ScalarType scalar_type(ir::DType dtype) { return static_cast<c10::ScalarType>(ir::torch_number(dtype)); }

/// Returns the type in which gradients of tensors of `type` are summed (`ir::sum_dtype`).
inline c10::ScalarType sum_type(c10::ScalarType type) {
  const auto dtype = ir::dtype_of_torch(static_cast<int>(type));
  return dtype ? scalar_type(ir::sum_dtype(*dtype)) : type;
}

/// The type of device whose kernels run there. Other backends than CUDA run those of a CPU.
inline ir::DeviceType device_type(const c10::Device& device) {
  return device.is_cuda() ? ir::DeviceType::kCuda : ir::DeviceType::kCpu;
}

}  // namespace rannc::runtime
