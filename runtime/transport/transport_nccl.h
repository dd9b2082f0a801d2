/// A transport between processes with a GPU each, over NCCL.
#pragma once

#include <memory>

#include "runtime/transport/rendezvous.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Joins the run and returns the endpoint of this worker, whose values lie in the memory of `device`. Collective: all
/// workers call it. Makes a communicator for each pair of `rendezvous.pairs` that this worker belongs to; messages of
/// other pairs are errors. It is an error if the device has no NCCL. Failures are those of `join_gloo`.
Result<std::unique_ptr<Transport>> join_nccl(const Rendezvous& rendezvous, Device& device);

}  // namespace rannc::runtime
