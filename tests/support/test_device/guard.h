/// What LibTorch calls to choose devices and streams, and to record events.
#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace rannc::testing {

/// Interface of devices, streams and events; lives as long as the process.
const c10::impl::DeviceGuardImplInterface& test_device_guard();

/// Interface of what else LibTorch expects of an accelerator; lives as long as the process.
at::PrivateUse1HooksInterface& test_device_hooks();

}  // namespace rannc::testing
