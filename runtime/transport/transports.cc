#include "runtime/transport/transports.h"

#include <algorithm>

#include "runtime/internal/named_rows.h"
#include "runtime/transport/transport_auto.h"
#include "runtime/transport/transport_copies.h"
#include "runtime/transport/transport_gloo.h"
#include "runtime/transport/transport_local.h"
#include "runtime/transport/transport_nccl.h"
#include "runtime/transport/transport_shm.h"

namespace rannc::runtime {
namespace {

using Ends = std::vector<std::unique_ptr<Transport>>;

Ends open_local(const std::vector<Device*>& devices, std::chrono::milliseconds timeout) {
  const bool copies = !devices.empty() && devices.front()->is_asynchronous();
  return copies ? make_copy_transports(devices, timeout)
                : make_local_transports(static_cast<uint32_t>(devices.size()), timeout);
}

const TransportKind kTransports[] = {
    {.name = "local", .summary = "threads of this process", .open = open_local},
    {.name = "auto",
     .summary = "a process per device, shared memory on one host and Gloo between hosts",
     .join = join_auto,
     .combines = true},
    {.name = "shm", .summary = "a process per device on one host, over shared memory", .join = join_shm},
    {.name = "gloo", .summary = "a process per device, over c10d's Gloo", .join = join_gloo},
    {.name = "nccl", .summary = "a process per GPU, over NCCL", .join = join_nccl, .needs_nccl = true},
};

}  // namespace

std::span<const TransportKind> transports() { return kTransports; }

std::vector<std::string> transport_names() { return names_of(transports()); }

std::string transport_summaries() { return summaries_of(transports()); }

const TransportKind* find_transport(std::string_view name) {
  const auto found = std::find_if(std::begin(kTransports), std::end(kTransports),
                                  [&](const TransportKind& kind) { return kind.name == name; });
  return found == std::end(kTransports) ? nullptr : found;
}

const TransportKind& default_transport(bool between_processes) {
  return *std::find_if(std::begin(kTransports), std::end(kTransports),
                       [&](const TransportKind& kind) { return kind.between_processes() == between_processes; });
}

}  // namespace rannc::runtime
