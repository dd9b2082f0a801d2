/// A transport between processes, over c10d's Gloo backend.
#pragma once

#include <memory>

#include "runtime/transport/rendezvous.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Joins the run and returns the endpoint of this worker, whose values lie in the memory of `device`. Collective: all
/// workers call it. Errors name the host and port, and whether worker 0 or another worker was missing. If any worker,
/// including worker 0, exits, is stopped or becomes unreachable, the run ends on all others within about the time-out,
/// with an error that names it.
Result<std::unique_ptr<Transport>> join_gloo(const Rendezvous& rendezvous, Device& device = cpu());

}  // namespace rannc::runtime
