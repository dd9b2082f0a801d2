/// Starts the worker processes of one machine and watches over them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/diagnostic.h"

namespace rannc::tools {

/// Runs `program arguments…` `workers` times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT as torchrun sets them, OMP_NUM_THREADS = `threads` and OMP_WAIT_POLICY=passive. Worker 0 also inherits a
/// socket that listens on that port, numbered by RANNC_LISTENING_SOCKET. Workers share this process's standard streams.
/// The first to fail ends the others, which hear of it from each other; after a grace of seconds by SIGKILL. SIGINT
/// and SIGTERM to this process are passed on. Returns when all are gone; an error names the first failing worker and
/// how it ended, where one was killed that one: the others fail by its death. No child is left behind, also when this
/// process is killed.
Result<void> launch_workers(const std::string& program, const std::vector<std::string>& arguments, uint32_t workers,
                            uint32_t threads);

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

/// What a worker finds in its environment.
struct WorkerEnvironment {
  uint32_t rank = 0, workers = 1, local_rank = 0;
  std::string master_address;
  uint16_t master_port = 0;
  int listening_socket = -1;  ///< of worker 0 started by `launch_workers`: listens on `master_port`; else -1
};
/// From torchrun's, Open MPI's or Slurm's variables; nothing where none is set. Two sets that disagree, missing or
/// malformed variables are errors that name them.
Result<std::optional<WorkerEnvironment>> read_worker_environment();

/// The path of this very program.
std::string own_program();

}  // namespace rannc::tools
