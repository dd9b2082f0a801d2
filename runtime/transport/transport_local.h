/// A transport between threads of one process that passes values without copying.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Returns one endpoint per device. A wait longer than `timeout` is an error that names the awaited message or
/// collective.
std::vector<std::unique_ptr<Transport>> make_local_transports(uint32_t devices, std::chrono::milliseconds timeout);

}  // namespace rannc::runtime
