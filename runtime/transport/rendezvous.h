/// Parameters with which the processes of a run find each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/base/ids.h"
#include "ir/plan/device_pairs.h"
#include "runtime/execute/progress.h"

namespace rannc::runtime {

using ir::DevicePairs;

/// Identity and connection settings of one worker.
struct Rendezvous {
  /// Host on which worker 0 serves the store: a name or address of its machine. It listens on the addresses of this
  /// host that belong to the machine, and on no others.
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  uint32_t rank = 0;  ///< this worker is device `rank`
  uint32_t workers = 1;
  /// Address for data connections of this machine; empty: the interface that reaches `host`.
  std::string interface_address;
  /// For worker 0: a socket that already listens on `port`; the transport takes ownership. If -1, the transport opens
  /// one, which fails if another program has taken the port in the meantime.
  int listening_socket = -1;
  /// Whether torchrun serves a LibTorch store at `port`. Worker 0 then publishes its own port there, under a key that
  /// contains `torch_round`, so that a restarted run does not read the port of the previous one.
  bool torch_store = false;
  std::string torch_round;
  std::chrono::milliseconds timeout{60000};  ///< for joining and for every wait for another worker
  /// Ordered pairs of devices that exchange messages, the same for all workers; empty: all. A transport may refuse
  /// messages of other pairs.
  std::optional<DevicePairs> pairs;
  /// The same for sums and gathers of tensors in device memory, without those within passes, and for the latter. A
  /// transport that connects devices in advance connects these. Other sums are possible, but may have to wait for
  /// memory.
  std::optional<DevicePairs> sum_pairs, pass_sum_pairs;
  /// Receives what this worker does. Null: nobody watches whether it hangs.
  std::shared_ptr<Progress> progress = {};
  /// A text that only the workers of the run have. Worker 0 and each other worker prove to each other that they have
  /// it. If it is empty, any process that reaches the port may join, so `host` must be a loopback address: all users of
  /// the machine are then trusted.
  std::string secret = {};
  /// Permits other hosts without a secret. Everyone who reaches the port is then trusted.
  bool insecure = false;
};

}  // namespace rannc::runtime
