/// A transport between threads of one process.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Returns one endpoint per device, which are all asynchronous or none is. Without an asynchronous device values are
/// passed by reference; else they are copied from the memory of one device to that of the other, which may be the same.
/// A wait longer than `timeout` is an error that names the awaited message or collective.
std::vector<std::unique_ptr<Transport>> make_local_transports(const std::vector<Device*>& devices,
                                                              std::chrono::milliseconds timeout);

/// The same for that many processors.
std::vector<std::unique_ptr<Transport>> make_local_transports(uint32_t devices, std::chrono::milliseconds timeout);

}  // namespace rannc::runtime
