/// The kernel of optimizer steps, compiled for the processor.
#pragma once

#include "runtime/device/plugin.h"

namespace rannc::testing {

/// Updates tensors in host memory.
void update_on_host(const runtime::DeviceUpdate& update);

}  // namespace rannc::testing
