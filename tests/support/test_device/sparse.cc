// Sparse tensors of the test device: their indices and values are dense tensors of it.
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/values_native.h>
#include <c10/core/DeviceGuard.h>

#include "tests/support/test_device/device_kernels.h"

namespace rannc::testing {
namespace {

using OptionalType = std::optional<c10::ScalarType>;
using OptionalLayout = std::optional<c10::Layout>;
using OptionalDevice = std::optional<c10::Device>;

// LibTorch's functions make the tensor on the current device.

at::Tensor sparse_with_dims(int64_t sparse, int64_t dense, c10::IntArrayRef sizes, OptionalType type,
                            OptionalLayout layout, OptionalDevice device, std::optional<bool> pinned) {
  const c10::OptionalDeviceGuard guard(device);
  return at::native::new_with_dims_sparse(sparse, dense, sizes, type, layout, device, pinned);
}

at::Tensor sparse_of_parts(int64_t sparse, int64_t dense, c10::SymIntArrayRef sizes, const at::Tensor& indices,
                           const at::Tensor& values, OptionalType type, OptionalLayout layout, OptionalDevice,
                           std::optional<bool> pinned, std::optional<bool> coalesced) {
  const c10::DeviceGuard guard(values.device());
  return at::native::new_with_dims_and_tensor_sparse_symint(sparse, dense, sizes, indices, values, type, layout,
                                                            values.device(), pinned, coalesced);
}

at::Tensor empty_sparse(c10::SymIntArrayRef sizes, OptionalType type, OptionalLayout layout, OptionalDevice device,
                        std::optional<bool> pinned, std::optional<c10::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::native::empty_sparse_symint(sizes, type, layout, device, pinned, format);
}

}  // namespace

std::set<std::string> add_sparse_kernels(torch::Library& library) {
  std::set<std::string> names;
  const auto add = [&](const char* name, auto function) {
    library.impl(name, torch::CppFunction(function));
    names.insert(std::string("aten::") + name);
  };
  namespace native = at::native;
  add("_sparse_coo_tensor_with_dims", TORCH_FN(sparse_with_dims));
  add("_sparse_coo_tensor_with_dims_and_tensors", TORCH_FN(sparse_of_parts));
  add("sparse_dim", TORCH_FN(native::sparse_dim_sparse));
  add("_dimI", TORCH_FN(native::sparse_dim_sparse));
  add("dense_dim", TORCH_FN(native::dense_dim_sparse));
  add("_dimV", TORCH_FN(native::dense_dim_sparse));
  add("_nnz", TORCH_FN(native::_nnz_sparse));
  add("is_coalesced", TORCH_FN(native::is_coalesced_sparse));
  add("_indices", TORCH_FN(native::_indices_sparse));
  add("_values", TORCH_FN(native::_values_sparse));
  add("indices", TORCH_FN(native::indices_sparse));
  add("values", TORCH_FN(native::values_sparse));
  add("_coalesced_", TORCH_FN(native::_coalesced_sparse_));
  add("copy_", TORCH_FN(native::copy_sparse_wrapper_));
  add("clone", TORCH_FN(native::clone_sparse));
  add("empty.memory_format", TORCH_FN(empty_sparse));
  return names;
}

}  // namespace rannc::testing
