/// A key-value store over TCP that also tracks the liveness of a run's workers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "ir/base/diagnostic.h"
#include "runtime/execute/running_clock.h"

namespace rannc::runtime {

/// Opens a socket that listens on `port` of all interfaces of this machine. Port 0 selects a free one.
Result<int> listen_on(uint16_t port);
uint16_t port_of(int listening_socket);

/// Serves the store from its own thread. The run fails if a worker disconnects without leaving or is silent for
/// `patience`. The first reason is kept.
class StoreServer {
 public:
  /// Takes ownership of `listening_socket`.
  StoreServer(int listening_socket, uint32_t workers, std::chrono::milliseconds patience);
  ~StoreServer();
  /// Waits until all other workers have left or disconnected, at most for `limit`.
  void await_others(uint32_t own_rank, std::chrono::milliseconds limit);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Work of a worker that does not wait for another one.
struct BusyWorker {
  uint64_t rank = 0;
  std::chrono::milliseconds idle{0};  ///< time without progress
  std::string work = {};              ///< as text for messages; empty: the worker waits, or nothing is known
};

/// Answer to a heartbeat.
struct RunState {
  std::string failure;   ///< why the run fails; empty if it does not
  uint64_t present = 0;  ///< workers that have joined
  std::string missing;   ///< workers that have not, as text for messages
  uint64_t silent_rank = 0;
  std::chrono::milliseconds silence{0};  ///< silence of `silent_rank`, the most silent worker
  BusyWorker busy;                       ///< the other worker whose work has made no progress for the longest time
};

/// One worker's connection to the store. Thread-safe. No call waits longer than its limit. If the server does not
/// answer within it, the connection is lost and every later call fails immediately.
class StoreClient {
 public:
  /// Connects, retrying while nobody listens, and registers this worker.
  static Result<std::unique_ptr<StoreClient>> join(const std::string& host, uint16_t port, uint32_t rank,
                                                   uint32_t workers, std::chrono::milliseconds timeout);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  Result<std::optional<std::string>> get(const std::string& key);
  Result<void> set(const std::string& key, const std::string& value);
  Result<int64_t> add(const std::string& key, int64_t value);
  /// `own.rank` is ignored.
  Result<RunState> beat(const BusyWorker& own = {});
  /// Ends the run for all workers. Returns the first reported reason.
  Result<std::string> fail(const std::string& reason);
  /// Reports that this worker is done. Does not wait.
  void leave();
  /// Limits all later calls to `limit`. A pending call that has waited longer ends.
  void hurry(std::chrono::milliseconds limit);

  /// Numeric address of the local interface that reaches the store.
  const std::string& local_address() const { return local_address_; }

 private:
  StoreClient(int socket, std::chrono::milliseconds timeout);
  /// Sends a request and returns the answer's frame without its length.
  Result<std::string> ask(std::string frame);
  Result<void> transfer(const std::string& frame, std::string& answer);
  Result<void> await(short events, RunningClock& clock);

  int socket_;
  std::atomic<std::chrono::milliseconds::rep> limit_ms_;
  std::string local_address_;
  std::mutex mutex_;  // held for one request and its answer
  std::optional<Diagnostic> lost_;
};

}  // namespace rannc::runtime
