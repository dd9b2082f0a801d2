// Tensors over the same bytes, for the device and for the host.
#include "tests/support/test_device/tensor_bytes.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

#include "tests/support/test_device/device_memory.h"
#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {
namespace {

const c10::DispatchKeySet kDeviceKeys(c10::DispatchKey::PrivateUse1);
const c10::DispatchKeySet kHostKeys(c10::DispatchKey::CPU);

at::Tensor tensor_over(const c10::Storage& storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys, like.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return tensor;
}

/// A sparse tensor like `like`, on the device of its parts.
at::Tensor sparse_of(const at::Tensor& like, const at::Tensor& indices, const at::Tensor& values) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto* impl = at::sparse::get_sparse_impl(like);
  return at::_sparse_coo_tensor_with_dims_and_tensors(impl->sparse_dim(), impl->dense_dim(), like.sizes(), indices,
                                                      values, values.options().layout(at::kSparse), impl->coalesced());
}

}  // namespace

std::vector<at::Tensor> dense_parts(const at::Tensor& tensor) {
  if (!tensor.is_sparse()) return {tensor};
  const auto* parts = at::sparse::get_sparse_impl(tensor);
  return {parts->indices(), parts->values()};
}

Touch touch_of(const at::Tensor& tensor, bool write) {
  if (!tensor.defined() || tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto item = static_cast<int64_t>(tensor.itemsize());
  const auto* first = static_cast<const char*>(tensor.storage().data_ptr().get()) + tensor.storage_offset() * item;
  return {first, static_cast<size_t>((last + 1) * item), write};
}

at::Tensor device_tensor(const c10::Storage& storage, const at::Tensor& like) {
  return tensor_over(storage, kDeviceKeys, like);
}

c10::Storage HostTwins::host_storage(const c10::Storage& device) {
  for (const Storages& known : storages_) {
    if (known.device.is_alias_of(device)) return known.host;
  }
  void* shadow = DeviceMemory::instance().shadow(device.data_ptr().get());
  // An operator may resize the twin, which then has memory of the host.
  c10::Storage host(c10::Storage::use_byte_size_t(), device.nbytes(), c10::DataPtr(shadow, c10::kCPU),
                    c10::GetCPUAllocator(), /*resizable=*/true);
  storages_.push_back({device, host, shadow});
  return host;
}

at::Tensor HostTwins::twin(const at::Tensor& tensor) {
  if (!on_test_device(tensor)) return tensor;
  for (const Tensors& known : tensors_) {
    if (known.device.is_same(tensor)) return known.host;
  }
  at::Tensor host;
  if (tensor.is_sparse()) {
    const auto* parts = at::sparse::get_sparse_impl(tensor);
    host = sparse_of(tensor, twin(parts->indices()), twin(parts->values()));
  } else {
    host = tensor_over(host_storage(tensor.storage()), kHostKeys, tensor);
  }
  tensors_.push_back({tensor, host});
  return host;
}

at::Tensor HostTwins::original(const at::Tensor& twin, c10::Device device, std::vector<Touch>& fresh) const {
  for (const Tensors& known : tensors_) {
    if (known.host.is_same(twin)) return known.device;
  }
  if (twin.is_sparse()) {
    const auto* parts = at::sparse::get_sparse_impl(twin);
    return sparse_of(twin, original(parts->indices(), device, fresh), original(parts->values(), device, fresh));
  }
  for (const Storages& known : storages_) {
    if (known.host.is_alias_of(twin.storage())) return device_tensor(known.device, twin);
  }
  at::Tensor made = on_device(twin, device);
  fresh.push_back(touch_of(made, true));
  return made;
}

void HostTwins::replace_sparse(const Tensors& resized, c10::Device device, std::vector<Touch>& fresh) const {
  auto* to = at::sparse::get_sparse_impl(resized.device);
  const auto* from = at::sparse::get_sparse_impl(resized.host);
  const void* values = DeviceMemory::instance().shadow(to->values().storage().data_ptr().get());
  const bool same = from->values().storage().data_ptr().get() == values && from->nnz() == to->nnz();
  if (same && from->coalesced() == to->coalesced()) return;
  to->raw_resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
  to->set_indices_and_values_unsafe(original(from->indices(), device, fresh), original(from->values(), device, fresh));
  to->set_coalesced(from->coalesced());
}

void HostTwins::resize_originals(c10::Device device, std::vector<Touch>& fresh) const {
  for (const Tensors& pair : tensors_) {
    const auto& [original, host] = pair;
    if (original.is_sparse()) {
      replace_sparse(pair, device, fresh);
      continue;
    }
    const bool same_shape = host.sizes() == original.sizes() && host.strides() == original.strides();
    const void* shadow = DeviceMemory::instance().shadow(original.storage().data_ptr().get());
    if (!same_shape) resize_device_tensor(original, host.sizes(), host.strides());
    if (host.storage().data_ptr().get() == shadow || host.numel() == 0) continue;
    fresh.push_back(touch_of(original, true));
    std::memcpy(DeviceMemory::instance().shadow(fresh.back().address), touch_of(host, false).address,
                fresh.back().bytes);
  }
}

at::Tensor on_device(const at::Tensor& host, c10::Device device) {
  const c10::DeviceGuard guard(device);
  at::Tensor tensor = at::detail::empty_strided_generic(host.sizes(), host.strides(), &DeviceMemory::instance(),
                                                        kDeviceKeys, host.scalar_type());
  const Touch to = touch_of(tensor, true);
  if (to.bytes > 0) std::memcpy(DeviceMemory::instance().shadow(to.address), touch_of(host, false).address, to.bytes);
  return tensor;
}

void copy_on_host(const at::Tensor& to, const at::Tensor& from) {
  const at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor(to).copy_(from);
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const c10::DeviceGuard guard(storage.device());
  DeviceMemory& memory = DeviceMemory::instance();
  c10::DataPtr data = memory.allocate(bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) {
    Streams::instance().begin(current_stream(storage.device().index()), "aten::resize_",
                              {{storage.data_ptr().get(), kept, false}, {data.get(), kept, true}});
    memory.copy_data(data.get(), storage.data_ptr().get(), kept);
  }
  impl->set_data_ptr_noswap(std::move(data));
  impl->set_nbytes(bytes);
}

void resize_device_tensor(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(sizes, strides);
  const size_t needed =
      at::detail::computeStorageNbytes(sizes, strides, tensor.itemsize(), static_cast<size_t>(tensor.storage_offset()));
  if (needed > tensor.storage().nbytes()) resize_storage(tensor.storage(), needed);
}

}  // namespace rannc::testing
