/// Devices of one process that have joined a run, each in a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/rendezvous.h"
#include "runtime/transport/transport.h"

namespace rannc::testing {

using Ends = std::vector<std::unique_ptr<runtime::Transport>>;
using JoinEnd = std::function<Result<std::unique_ptr<runtime::Transport>>(const runtime::Rendezvous&)>;

/// By device: its end, or why it has none.
struct Joined {
  Ends ends;
  std::vector<std::string> failures;
};

/// Calls `job` for every device, in a thread each.
void on_each(uint32_t devices, const std::function<void(uint32_t)>& job);

/// Joins `common.workers` devices. The rendezvous that `join` gets has their rank and a free port.
Joined join_each(const runtime::Rendezvous& common, const JoinEnd& join);

/// The ends of a run over Gloo of so many devices.
Ends gloo_ends(uint32_t devices);

/// Two halves of workers that combine transports. Those of a half are attached, as if each half had a host of its own.
Result<std::unique_ptr<runtime::Transport>> join_two_hosts(const runtime::Rendezvous& where, runtime::Device& device);

/// Lets all go at once: device 0 waits for the others to leave.
void leave(Ends& ends);

}  // namespace rannc::testing
