/// The current device and streams of a thread.
#pragma once

#include <c10/core/Stream.h>

#include <array>

#include "tests/support/test_device/test_device.h"

namespace rannc::testing {

struct ThreadState {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, kTestDevices> streams{};  ///< the default ones
};

ThreadState& thread_state();

inline c10::DeviceIndex current_device() { return thread_state().device; }
inline c10::Stream current_stream(c10::DeviceIndex device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kPrivateUse1, device),
                     thread_state().streams.at(static_cast<size_t>(device)));
}

}  // namespace rannc::testing
