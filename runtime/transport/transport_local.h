/// A transport between threads of one process.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Returns one endpoint per device, all of the processor. Values are passed by reference. A wait longer than `timeout`
/// is an error that names the awaited message or collective.
std::vector<std::unique_ptr<Transport>> make_local_transports(uint32_t devices, std::chrono::milliseconds timeout);

}  // namespace rannc::runtime
