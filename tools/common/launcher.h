/// Starts and supervises the worker processes of one machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/owned_file.h"

namespace rannc::tools {

/// A new start of all workers, because one was lost.
struct Restart {
  uint32_t number = 1;  ///< counted from 1
  std::string reason;   ///< names the lost worker and its signal
};

/// Describes the workers of a run.
struct Fleet {
  uint32_t workers = 1;
  uint32_t threads = 1;                      ///< threads per worker
  std::chrono::milliseconds timeout{60000};  ///< maximum time that a worker may be stopped, or show no life
  std::chrono::milliseconds grace{5000};     ///< time that workers have to end by themselves after another failed
  /// True if the workers use `RunSignals` and end in order; else the first SIGTERM ends them.
  bool ends_in_order = false;
  /// True if the workers use `HangWatch`, which sends signs of life and reports hangs. Else they are not expected.
  bool shows_life = false;
  uint32_t restarts = 0;  ///< how often lost workers are replaced
  /// Called before each restart, while no worker runs. Returns `WorkerEnvironment::resumes` of the new workers.
  std::function<bool(const Restart&)> restart = {};
  /// If set, workers are forks of this process that call it with the command line and exit with its result, instead of
  /// executing the program: they need not load libraries again. This process must have a single thread, and must not
  /// have used OpenMP or a device. OMP_NUM_THREADS and OMP_WAIT_POLICY then have no effect: OpenMP has read them.
  int (*main)(int argc, char** argv) = nullptr;
};

/// Runs `program arguments…` `fleet.workers` times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT as torchrun sets them, OMP_NUM_THREADS and OMP_WAIT_POLICY=passive. All get the same random secret of
/// this start in RANNC_SECRET (`take_secret`). Each worker inherits a pipe for the
/// reason of its failure (`report_failure`). Worker 0 also inherits a socket that listens on MASTER_PORT. See
/// `worker_environment.h` for the variables that name them. Workers share this process's standard streams.
///
/// The first failure ends the other workers, which notify each other; after `grace` the rest get SIGKILL. A
/// stopped worker fails if it does not continue within the time-out, and a silent one if it shows no life for as long.
/// Until its first sign, unless another worker fails before, and after its last sign it has ten times as long. A
/// process that the kernel does not end after SIGKILL is left behind after `grace`, and the error names it.
/// Returns a single error: the worker that was killed or stopped, since that causes the other failures, or else the
/// report of the first worker that failed.
///
/// A worker is lost if a signal killed it, if it was stopped and did not continue, if it shows no life, or if it
/// reports that it hangs. While restarts are left, its loss ends the others at once, and all workers start again, at
/// another port. Any other worker that ends by itself is not lost: it would fail again.
///
/// The first SIGINT or SIGTERM to this process is forwarded as SIGTERM, after which workers may take their time to end
/// in order. The second ends all at once. There are no restarts after a signal. Returns 0, or 128 plus the signal's
/// number if workers ended in order because of a signal. No child process is left behind otherwise, even if this
/// process is killed.
Result<int> launch_workers(const std::string& program, const std::vector<std::string>& arguments, const Fleet& fleet);

/// A socket that listens on a port of 127.0.0.1 that the system chose. The port stays reserved until the last process
/// that holds the socket closes it.
class Listener {
 public:
  static Result<Listener> open();
  uint16_t port() const { return port_; }
  int socket() const { return socket_.get(); }
  /// Passes the ownership of the socket to the caller.
  int release() { return socket_.release(); }
  /// Closes the socket in this process.
  void close() { socket_ = {}; }

 private:
  OwnedFile socket_;
  uint16_t port_ = 0;
};

/// Path of the running executable.
std::string own_program();
/// Path of the program `name` in the folder of the running executable, such as `rannc-stage` for
/// `codegen::BundleOptions`.
std::string program_beside(const std::string& name);

}  // namespace rannc::tools
