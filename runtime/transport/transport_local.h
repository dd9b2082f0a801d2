/// Devices that are threads of one process: values are handed over, nothing is copied.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// One end per device, sharing one exchange. A wait longer than `timeout` is an error that names what was waited for.
std::vector<std::unique_ptr<Transport>> make_local_transports(uint32_t devices, std::chrono::milliseconds timeout);

}  // namespace rannc::runtime
