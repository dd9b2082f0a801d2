// Registers the test devices with LibTorch.
#include "tests/support/test_device/test_device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include <torch/library.h>

#include <mutex>

#include "tests/support/test_device/device_kernels.h"
#include "tests/support/test_device/device_memory.h"
#include "tests/support/test_device/guard.h"
#include "tests/support/test_device/host_kernels.h"
#include "tests/support/test_device/pinned_memory.h"
#include "tests/support/test_device/streams.h"

namespace rannc::testing {
namespace {

torch::CppFunction host_kernel() { return torch::CppFunction::makeFromBoxedFunction<&run_by_host_kernel>(); }

torch::Library& library_of(const char* operators, c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, operators, key, __FILE__, __LINE__);  // until the process ends
}

/// Registers every operator that has a kernel for `host`, so that an operator is decomposed on the device exactly
/// where it is on a CPU: results are the same bits. `own` has other kernels.
void register_all(torch::Library& library, c10::DispatchKey host, const std::set<std::string>& own) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || name.getNamespace() != "aten" || own.contains(c10::toString(name)) || name.name == "aten::copy_") {
      continue;
    }
    if (op->hasKernelForDispatchKey(host)) library.impl(c10::toString(name).c_str(), host_kernel());
  }
}

void register_operators() {
  torch::Library& dense = library_of("aten", c10::DispatchKey::PrivateUse1);
  register_all(dense, c10::DispatchKey::CPU, add_device_kernels(dense));
  // One kernel for many tensors.
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.starts_with("aten::_foreach_")) dense.impl(c10::toString(name).c_str(), host_kernel());
  }
  // Decomposed by the type of the device, hence not as on a CPU.
  for (const char* name : {"convolution", "convolution_backward", "_convolution"}) dense.impl(name, host_kernel());
  add_attention(dense);
  add_recurrent(dense);
  add_recurrent(library_of("aten", c10::DispatchKey::AutogradPrivateUse1));
  torch::Library& sparse = library_of("aten", c10::DispatchKey::SparsePrivateUse1);
  register_all(sparse, c10::DispatchKey::SparseCPU, add_sparse_kernels(sparse));
  library_of("_", c10::DispatchKey::PrivateUse1).fallback(host_kernel());
}

}  // namespace

void use_test_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::register_privateuse1_backend("test");
    c10::SetAllocator(c10::kPrivateUse1, &DeviceMemory::instance());
    at::setHostAllocator(c10::kPrivateUse1, &PinnedMemory::instance());
    c10::impl::registerDeviceGuard(c10::kPrivateUse1, &test_device_guard());
    at::RegisterPrivateUse1HooksInterface(&test_device_hooks());
    register_operators();
  });
}

c10::Device test_device(c10::DeviceIndex index) {
  use_test_device();
  return {c10::kPrivateUse1, index};
}

std::optional<std::string> pending_race() {
  const std::lock_guard lock(device_mutex());
  return Streams::instance().pending;
}

std::optional<std::string> take_race() {
  const std::lock_guard lock(device_mutex());
  return std::exchange(Streams::instance().pending, std::nullopt);
}

uint64_t races_found() {
  const std::lock_guard lock(device_mutex());
  return Streams::instance().races;
}

uint64_t host_waits() {
  const std::lock_guard lock(device_mutex());
  return Streams::instance().host_waits;
}

int priority_of(const c10::Stream& stream) { return Streams::instance().priority(stream); }

uint64_t enqueued_by_host() { return Streams::instance().enqueued_by_host; }

void reset_test_device() {
  use_test_device();
  for (c10::DeviceIndex device = 0; device < kTestDevices; ++device) Streams::instance().host_wait_for_device(device);
  take_race();
}

}  // namespace rannc::testing
