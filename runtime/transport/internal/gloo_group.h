/// c10d's Gloo process group with rendezvous through our own store.
#pragma once

#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "runtime/transport/internal/store.h"
#include "runtime/transport/transport_gloo.h"

namespace rannc::runtime {

using GlooWork = c10::intrusive_ptr<c10d::Work>;
using GlooGroup = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// Connects all workers with each other. `client` must outlive the group. c10d's exceptions pass through.
GlooGroup make_gloo_group(StoreClient& client, const Rendezvous& where);

/// Exchanges the port of worker 0 through torchrun's store. Worker 0 publishes `own`; the others return it.
Result<uint16_t> port_by_torch_store(const Rendezvous& where, uint16_t own);

/// Returns the message of a LibTorch exception without stack frames and source locations.
std::string plain(const std::exception& failure);

}  // namespace rannc::runtime
