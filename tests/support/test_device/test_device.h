/// A device of tests, whose streams are checked for missing waits.
///
/// `README.md` explains what it finds and what it doesn't.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <optional>
#include <string>

#include "runtime/device/plugin.h"

namespace rannc::testing {

/// Number of devices. Their type is `at::kPrivateUse1`, by the name "test".
inline constexpr c10::DeviceIndex kTestDevices = 4;
/// Memory of each device. An allocation beyond it throws `c10::OutOfMemoryError`.
inline constexpr uint64_t kTestDeviceBytes = uint64_t{16} << 30;
/// Clock that the plug-in reports.
inline constexpr uint64_t kTestDeviceKhz = 1'000'000;

/// Registers the devices with LibTorch. Idempotent; to be called before the first use, before other threads exist.
void use_test_device();

/// The device `index`; registers the devices first.
c10::Device test_device(c10::DeviceIndex index = 0);

/// The plug-in of these devices, for the lifetime of the process; registers them first.
runtime::DevicePlugin& test_device_plugin();

/// Whether the plug-in updates parameters by `update_on_host`, which differs from LibTorch's kernels in the last bit,
/// or has no kernel (the default).
void use_update_kernel(bool use);
/// How often it has updated parameters since the start of the process.
uint64_t kernel_updates();

/// The first missing wait that was found where no exception can be thrown: memory freed while another stream uses it,
/// or pinned memory that the host changed too early. The next operator throws it as a `c10::Error`; a test calls this
/// at its end and expects nothing. Any thread.
std::optional<std::string> pending_race();
/// Returns and forgets `pending_race()`.
std::optional<std::string> take_race();

/// Number of missing waits since the start of the process, thrown or pending. Finds those that somebody caught.
uint64_t races_found();

/// How often the host has waited for a stream or event, or queried one, since the start of the process.
uint64_t host_waits();

/// The priority with which a stream was made; below 0: high.
int priority_of(const c10::Stream& stream);

/// How many work items the host has enqueued since the start of the process. A replay is one, whatever was recorded.
uint64_t enqueued_by_host();

/// Makes the host wait for all streams of all devices, and forgets pending races. For the start of a test.
void reset_test_device();

}  // namespace rannc::testing
