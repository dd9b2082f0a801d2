/// The endpoint over Gloo of a worker that has joined a run.
#pragma once

#include <memory>

#include "runtime/transport/internal/exchange_transport.h"
#include "runtime/transport/internal/run_member.h"

namespace rannc::runtime {

/// Connects this worker with all others, which call it too. Values lie in the memory of `device`. c10d's exceptions
/// pass through.
std::unique_ptr<ExchangeTransport> connect_gloo(std::shared_ptr<RunMember> run, Device& device);

}  // namespace rannc::runtime
