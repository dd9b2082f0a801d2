// Devices, streams and events of the test device, as LibTorch calls them.
#include "tests/support/test_device/guard.h"

#include <ATen/CPUGeneratorImpl.h>

#include <utility>

#include "tests/support/test_device/device_memory.h"
#include "tests/support/test_device/pinned_memory.h"
#include "tests/support/test_device/tensor_bytes.h"
#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

namespace {

c10::Device device_at(c10::DeviceIndex index) { return {c10::kPrivateUse1, index}; }

/// The device itself, or the current one if it has no index.
c10::DeviceIndex index_of(c10::Device device) { return device.has_index() ? device.index() : current_device(); }

c10::DeviceIndex exchange(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < kTestDevices, "there is no test device ", static_cast<int>(index));
  return std::exchange(thread_state().device, index);
}

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::DeviceIndex deviceCount() const noexcept override { return kTestDevices; }

  c10::Device exchangeDevice(c10::Device device) const override { return device_at(exchange(index_of(device))); }
  c10::Device getDevice() const override { return device_at(current_device()); }
  void setDevice(c10::Device device) const override { exchange(index_of(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { thread_state().device = index_of(device); }

  c10::Stream getStream(c10::Device device) const override { return current_stream(index_of(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return Streams::instance().default_stream(index_of(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high) const override {
    return Streams::instance().pooled(index_of(device), high ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return Streams::instance().pooled(index_of(device), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    Streams::instance().index(stream);  // throws if there is none
    c10::StreamId& current = thread_state().streams.at(static_cast<size_t>(stream.device_index()));
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), std::exchange(current, stream.id()));
  }

  bool queryStream(const c10::Stream& stream) const override {
    if (Streams::instance().has_pending(stream)) return false;
    Streams::instance().host_wait(stream);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override { Streams::instance().host_wait(stream); }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    Streams::instance().host_wait_for_device(index_of(device_at(device)));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    DeviceMemory::instance().recordStream(memory, stream);
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new TestEvent;
    Streams::instance().record(*static_cast<TestEvent*>(*event), stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) Streams::instance().wait(stream, *static_cast<TestEvent*>(event));
  }
  bool queryEvent(void* event) const override {
    if (event != nullptr && Streams::has_pending(*static_cast<TestEvent*>(event))) return false;
    synchronizeEvent(event);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) Streams::instance().host_wait(*static_cast<TestEvent*>(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<TestEvent*>(event); }
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    const auto passed = static_cast<TestEvent*>(second)->time - static_cast<TestEvent*>(first)->time;
    return std::chrono::duration<double, std::milli>(passed).count();
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kTestDevices; }
  void setCurrentDevice(c10::DeviceIndex device) const override { exchange(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchange(device);
  }
  bool isPinnedPtr(const void* data) const override { return PinnedMemory::instance().contains(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedMemory::instance(); }
  c10::Device getDeviceFromPtr(void* data) const override {
    return device_at(DeviceMemory::instance().device_of(data));
  }
  /// The kernels are those of the CPU, and so is the generator.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

}  // namespace

const c10::impl::DeviceGuardImplInterface& test_device_guard() {
  static const auto* const guard = new GuardImpl;
  return *guard;
}

at::PrivateUse1HooksInterface& test_device_hooks() {
  static auto* const hooks = new Hooks;
  return *hooks;
}

}  // namespace rannc::testing
