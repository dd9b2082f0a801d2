/// c10d's process group over Gloo, met through our own store.
#pragma once

#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "runtime/transport/internal/store.h"
#include "runtime/transport/transport_gloo.h"

namespace rannc::runtime {

using GlooWork = c10::intrusive_ptr<c10d::Work>;
using GlooGroup = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// Connects all workers with each other. `client` outlives the group. Throws what c10d throws.
GlooGroup make_gloo_group(StoreClient& client, const Rendezvous& where);

/// Where worker 0 listens, which it says by way of torchrun's own store: `own` of worker 0, else what it said.
Result<uint16_t> port_by_torch_store(const Rendezvous& where, uint16_t own);

/// What an exception of LibTorch says for people: neither its stack frames nor places in its sources.
std::string plain(const std::exception& failure);

}  // namespace rannc::runtime
