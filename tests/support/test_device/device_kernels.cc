// Operators that allocate, view or copy memory of the test device.
#include "tests/support/test_device/device_kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>

#include "tests/support/test_device/device_memory.h"
#include "tests/support/test_device/pinned_memory.h"
#include "tests/support/test_device/recording.h"
#include "tests/support/test_device/tensor_bytes.h"
#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {
namespace {

using OptionalDevice = std::optional<c10::Device>;

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                 OptionalDevice device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, &DeviceMemory::instance(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, OptionalDevice device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, &DeviceMemory::instance(), kKeys,
                                           c10::dtype_or_default(dtype));
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  const auto strides = format.value_or(c10::MemoryFormat::Contiguous) == c10::MemoryFormat::ChannelsLast
                           ? c10::get_channels_last_strides_2d(sizes)
                           : at::detail::defaultStrides(sizes);
  if (self.sizes() != sizes || format) resize_device_tensor(self, sizes, strides);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage storage, int64_t offset, c10::IntArrayRef sizes,
                        c10::IntArrayRef strides) {
  TORCH_CHECK(storage.device().type() == c10::kPrivateUse1, "set_: the storage is not of the test device");
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  const auto contiguous = at::detail::defaultStrides(sizes);
  resize_device_tensor(self, sizes, strides.empty() ? c10::IntArrayRef(contiguous) : strides);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, c10::Storage storage) {
  const auto numbers = static_cast<int64_t>(storage.nbytes() / self.itemsize());
  return set_storage(self, std::move(storage), 0, {numbers}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  return set_storage(self, c10::Storage(c10::Storage::use_byte_size_t(), 0, &DeviceMemory::instance(), true), 0, {0},
                     {});
}

/// Counts a copy as work of `stream`.
uint64_t begin_copy(const c10::Stream& stream, const at::Tensor& from, const at::Tensor& to) {
  return Streams::instance().begin(stream, "aten::copy_", {touch_of(from, false), touch_of(to, true)});
}

/// Runs on the stream of the source. Each device waits for the other one, as it does on a CUDA device.
void copy_between_devices(const at::Tensor& from, const at::Tensor& to) {
  Streams& streams = Streams::instance();
  const c10::Stream stream = current_stream(from.device().index()), other = current_stream(to.device().index());
  if (stream != other) streams.wait(stream, other);
  begin_copy(stream, from, to);
  Recording* recording = streams.recording(stream);
  if (recording != nullptr) recording->save({to});
  HostTwins twins;
  copy_on_host(twins.twin(to), twins.twin(from));
  if (stream != other) streams.wait(other, stream);
  if (recording != nullptr) recording->add([from, to] { copy_between_devices(from, to); });
}

void copy_to_device(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  PinnedMemory& pinned = PinnedMemory::instance();
  const c10::Stream stream = current_stream(to.device().index());
  const bool is_pinned = pinned.contains(from.storage().data_ptr().get());
  if (Recording* recording = Streams::instance().recording(stream)) {
    TORCH_CHECK(non_blocking && is_pinned, "a recording cannot copy from the host and wait");
    return recording->add([from, to] { copy_to_device(from, to, true); });
  }
  const uint64_t tick = begin_copy(stream, from, to);
  if (is_pinned) pinned.arrive(from);
  HostTwins twins;
  copy_on_host(twins.twin(to), from);
  if (!non_blocking) Streams::instance().host_wait(stream);
  if (non_blocking && is_pinned && from.is_non_overlapping_and_dense()) {
    pinned.read_later(from, Streams::instance().index(stream), tick);
  }
}

void copy_to_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  PinnedMemory& pinned = PinnedMemory::instance();
  const c10::Stream stream = current_stream(from.device().index());
  const bool is_pinned = pinned.contains(to.storage().data_ptr().get());
  if (Recording* recording = Streams::instance().recording(stream)) {
    TORCH_CHECK(non_blocking && is_pinned, "a recording cannot copy to the host and wait");
    return recording->add([from, to] { copy_to_host(from, to, true); });
  }
  const uint64_t tick = begin_copy(stream, from, to);
  HostTwins twins;
  if (non_blocking && is_pinned) {
    const at::Tensor staged = at::detail::empty_cpu(to.sizes(), to.scalar_type());
    copy_on_host(staged, twins.twin(from));
    pinned.write_later(to, staged, Streams::instance().index(stream), tick);
  } else {
    // Pageable memory: CUDA's driver waits as well.
    Streams::instance().host_wait(stream);
    copy_on_host(to, twins.twin(from));
  }
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (on_test_device(from) && on_test_device(to)) {
    copy_between_devices(from, to);
  } else if (on_test_device(to)) {
    copy_to_device(from, to, non_blocking);
  } else {
    copy_to_host(from, to, non_blocking);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  at::Tensor(to).resize_(from.sizes());
  return copy_from(from, to, false);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  DeviceMemory::instance().recordStream(self.storage().data_ptr(), stream);
}

c10::Scalar local_scalar(const at::Tensor& self) {
  const c10::Stream stream = current_stream(self.device().index());
  Streams& streams = Streams::instance();
  streams.begin(stream, "aten::_local_scalar_dense", {touch_of(self, false)});
  streams.host_wait(stream);
  HostTwins twins;
  const at::AutoDispatchBelowADInplaceOrView below;
  return at::_local_scalar_dense(twins.twin(self));
}

}  // namespace

std::set<std::string> add_device_kernels(torch::Library& library) {
  std::set<std::string> names;
  const auto add = [&](const char* name, auto function) {
    library.impl(name, torch::CppFunction(function));
    names.insert(std::string("aten::") + name);
  };
  add("empty.memory_format", TORCH_FN(empty));
  add("empty_strided", TORCH_FN(empty_strided));
  add("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  add("view", TORCH_FN(at::native::view));
  add("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  add("resize_", TORCH_FN(resize));
  add("set_.source_Storage", TORCH_FN(set_whole_storage));
  add("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  add("set_.source_Tensor", TORCH_FN(set_tensor));
  add("set_", TORCH_FN(set_nothing));
  add("_copy_from", TORCH_FN(copy_from));
  add("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  add("_local_scalar_dense", TORCH_FN(local_scalar));
  add("record_stream", TORCH_FN(record_stream));
  return names;
}

}  // namespace rannc::testing
