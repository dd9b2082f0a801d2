/// Starts the worker processes of one machine and watches over them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// What a run's workers are.
struct Fleet {
  uint32_t workers = 1;
  uint32_t threads = 1;                      ///< of each
  std::chrono::milliseconds timeout{60000};  ///< for how long one may be stopped
  /// They have `RunSignals` and end in order; else the first SIGTERM ends them.
  bool ends_in_order = false;
};

/// Runs `program arguments…` `fleet.workers` times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT as torchrun sets them, OMP_NUM_THREADS and OMP_WAIT_POLICY=passive. Each inherits a pipe that takes why
/// it failed (`report_failure`), worker 0 also a socket that listens on that port; `worker_environment.h` names their
/// variables. Workers share this process's standard streams.
///
/// The first to fail ends the others, which hear of it from each other; after a grace of seconds by SIGKILL. One that
/// was stopped fails when it does not go on within the time-out. The error is a single one: which worker was killed or
/// stopped, for the others fail by that, or else what the first to fail reported.
///
/// The first SIGINT or SIGTERM to this process is passed on as SIGTERM, and workers take their time to end in order;
/// the second ends all at once. Returns 0, or 128 and the signal's number where workers ended by one in order. No child
/// is left behind, also when this process is killed.
Result<int> launch_workers(const std::string& program, const std::vector<std::string>& arguments, const Fleet& fleet);

/// A socket that listens on a port of 127.0.0.1 which the system chose. Nobody else can take the port, from now on
/// until the last process that has the socket has closed it.
class Listener {
 public:
  static Result<Listener> open();
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();
  uint16_t port() const { return port_; }
  int socket() const { return socket_; }
  /// The socket, which the caller closes from now on.
  int release();

 private:
  Listener(int socket, uint16_t port) : socket_(socket), port_(port) {}
  int socket_;  // -1: released
  uint16_t port_;
};

/// The path of this very program.
std::string own_program();

}  // namespace rannc::tools
