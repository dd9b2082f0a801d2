/// Devices that are processes, joined by c10d over Gloo.
#pragma once

#include <memory>

#include "runtime/transport/rendezvous.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Joins and returns this worker's end. Collective: all workers call it. Errors name the host and port, and whether
/// worker 0 or another was missing. A worker that goes, is stopped or cannot be reached ends the run on every other one
/// within about the time-out, also worker 0, and is named.
Result<std::unique_ptr<Transport>> join_gloo(const Rendezvous& rendezvous);

}  // namespace rannc::runtime
