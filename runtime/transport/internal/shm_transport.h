/// The endpoint over shared memory of a worker that has joined a run.
#pragma once

#include <memory>

#include "runtime/transport/internal/exchange_transport.h"
#include "runtime/transport/internal/run_member.h"
#include "runtime/transport/internal/shm_links.h"

namespace rannc::runtime {

/// Returns the endpoint for messages to and from the peers of `links`. Values lie in the memory of `device`.
std::unique_ptr<ExchangeTransport> connect_shm(std::shared_ptr<RunMember> run, ShmLinks links, Device& device);

/// Returns the endpoint that reaches the peers of `links` through shared memory and all others over Gloo. Collective if
/// not all workers are attached. c10d's exceptions pass through.
std::unique_ptr<Transport> connect_auto(const std::shared_ptr<RunMember>& run, ShmLinks links, Device& device);

}  // namespace rannc::runtime
