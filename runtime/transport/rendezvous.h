/// How the processes of one run find each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rannc::runtime {

/// How a worker finds the others.
struct Rendezvous {
  std::string host = "127.0.0.1";  ///< where worker 0 serves the store
  uint16_t port = 0;
  uint32_t rank = 0;  ///< this worker is device `rank`
  uint32_t workers = 1;
  /// Of this machine's data connections; empty: the interface that reaches `host`.
  std::string interface_address;
  /// Of worker 0: a socket that listens on `port` already and belongs to the transport from now on; -1: one is made,
  /// which fails where another program has taken the port meanwhile.
  int listening_socket = -1;
  /// At `port` torchrun serves a store of LibTorch's: there worker 0 says where it listens instead, under a key of this
  /// round, so that a restarted run does not read the port of the one before.
  bool torch_store = false;
  std::string torch_round;
  std::chrono::milliseconds timeout{60000};  ///< of joining, and of every wait for another worker
};

}  // namespace rannc::runtime
