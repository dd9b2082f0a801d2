/// A transport between processes that selects shared memory or Gloo per peer.
#pragma once

#include <memory>

#include "runtime/transport/rendezvous.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Joins the run and returns the endpoint of this worker, whose values lie in the memory of `device`. Collective: all
/// workers call it. Messages between workers that can attach each other's shared memory go through it, all others over
/// Gloo. Failures are those of `join_gloo`. It is also an error if shared memory is short.
Result<std::unique_ptr<Transport>> join_auto(const Rendezvous& rendezvous, Device& device = cpu());

}  // namespace rannc::runtime
