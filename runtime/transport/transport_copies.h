/// A transport between threads of one process whose devices have memory of their own.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Returns one endpoint per device, all of which are asynchronous. Values are copied from the memory of one device to
/// that of the other, which may be the same. A wait longer than `timeout` is an error that names what was awaited.
std::vector<std::unique_ptr<Transport>> make_copy_transports(const std::vector<Device*>& devices,
                                                             std::chrono::milliseconds timeout);

}  // namespace rannc::runtime
