/// Synthetic tensors for benchmarks.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/aten/torch_types.h"

namespace rannc::testing {

/// Normal floats of standard deviation `scale`, or ones for other types.
inline at::Tensor synthetic_tensor(const std::vector<int64_t>& sizes, ir::DType dtype, double scale = 1) {
  const auto options = at::TensorOptions().dtype(runtime::scalar_type(dtype));
  return ir::is_float(dtype) ? at::randn(sizes, options) * scale : at::ones(sizes, options);
}

inline at::Tensor constant_tensor(const std::vector<int64_t>& sizes, ir::DType dtype, double value) {
  return at::full(sizes, value, at::TensorOptions().dtype(runtime::scalar_type(dtype)));
}

}  // namespace rannc::testing
