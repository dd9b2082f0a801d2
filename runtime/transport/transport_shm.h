/// A transport between processes of one machine, over shared memory.
#pragma once

#include <memory>

#include "runtime/transport/rendezvous.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Joins the run and returns the endpoint of this worker, whose values lie in the memory of `device`. Collective: all
/// workers call it. It is an error if two workers cannot attach each other's shared memory, because they are on
/// different hosts or in different network namespaces, or if shared memory is short. Sends never wait. Failures are
/// those of `join_gloo`.
Result<std::unique_ptr<Transport>> join_shm(const Rendezvous& rendezvous, Device& device = cpu());

}  // namespace rannc::runtime
