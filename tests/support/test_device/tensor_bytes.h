/// Tensors of a test device as tensors of the host over the same bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tests/support/test_device/streams.h"

namespace rannc::testing {

/// The bytes from the first to the last number of `tensor`; those between its numbers count as its own.
Touch touch_of(const at::Tensor& tensor, bool write);

inline bool on_test_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::kPrivateUse1;
}

/// Makes tensors of the host over the shadows of device tensors. Tensors that share a storage share one here, for the
/// lifetime of this object.
class HostTwins {
 public:
  /// `tensor` itself if it is not on a test device.
  at::Tensor twin(const at::Tensor& tensor);
  /// The device tensor that `twin` was made of, or a device tensor over the same bytes. A new tensor of `device` if
  /// the twin has bytes of its own; its bytes are added to `fresh`.
  at::Tensor original(const at::Tensor& twin, c10::Device device, std::vector<Touch>& fresh) const;
  /// Gives originals the sizes and bytes of twins that an operator resized. Adds new memory to `fresh`.
  void resize_originals(c10::Device device, std::vector<Touch>& fresh) const;

 private:
  struct Storages {
    c10::Storage device, host;
    const void* shadow = nullptr;
  };
  struct Tensors {
    at::Tensor device, host;
  };
  c10::Storage host_storage(const c10::Storage& device);
  void replace_sparse(const Tensors& resized, c10::Device device, std::vector<Touch>& fresh) const;

  std::vector<Storages> storages_;
  std::vector<Tensors> tensors_;
};

/// The tensor itself, or the indices and values of a sparse one.
std::vector<at::Tensor> dense_parts(const at::Tensor& tensor);
/// A device tensor over `storage`.
at::Tensor device_tensor(const c10::Storage& storage, const at::Tensor& like);
/// A new device tensor with the numbers and strides of `host`, allocated on the current stream.
at::Tensor on_device(const at::Tensor& host, c10::Device device);
/// `to.copy_(from)` of two tensors of the host, below autograd.
void copy_on_host(const at::Tensor& to, const at::Tensor& from);
/// Gives a device tensor other sizes and strides, and more memory if they need it.
void resize_device_tensor(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides);
/// Makes a storage larger or smaller, as work of the current stream.
void resize_storage(const c10::Storage& storage, size_t bytes);

}  // namespace rannc::testing
