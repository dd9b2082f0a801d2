/// Devices of one process that are connected over Gloo.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace rannc::testing {

using Ends = std::vector<std::unique_ptr<runtime::Transport>>;

/// Calls `job` for every device, in a thread each.
void on_each(uint32_t devices, const std::function<void(uint32_t)>& job);

/// The ends of a run of so many devices.
Ends gloo_ends(uint32_t devices);

/// Lets all go at once: device 0 waits for the others to leave.
void leave(Ends& ends);

}  // namespace rannc::testing
