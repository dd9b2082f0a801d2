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
#include <vector>

#include "ir/base/diagnostic.h"
#include "runtime/execute/running_clock.h"
#include "runtime/transport/internal/addresses.h"
#include "runtime/transport/internal/file_messages.h"
#include "runtime/transport/rendezvous.h"

namespace rannc::runtime {

/// Serves the store from its own thread to connections that prove `Rendezvous::secret`. The run fails if a worker
/// disconnects without leaving or is silent for `Rendezvous::timeout`. The first reason is kept. Other connections have
/// 5 s to prove the secret. Beyond 16, and one per worker that has not joined, the oldest are closed.
class StoreServer {
 public:
  StoreServer(std::vector<OwnedFile> listening, const Rendezvous& where);
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
  std::string refused;   ///< why the last process that tried to join could not, as text for messages; or empty
  uint64_t silent_rank = 0;
  std::chrono::milliseconds silence{0};  ///< silence of `silent_rank`, the most silent worker
  BusyWorker busy;                       ///< the other worker whose work has made no progress for the longest time
};

/// One worker's connection to the store. Thread-safe. No call waits longer than its limit. If the server does not
/// answer within it, the connection is lost and every later call fails immediately.
class StoreClient {
 public:
  /// Connects to `port` of `where.host`, retrying while nobody listens, and registers this worker. Worker and server
  /// prove to each other that they have the same secret, without revealing it.
  static Result<std::unique_ptr<StoreClient>> join(const Rendezvous& where, uint16_t port);
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
  StoreClient(OwnedFile socket, std::chrono::milliseconds timeout);
  Result<void> prove(const Rendezvous& where);
  /// Sends a request and returns the answer's frame without its length.
  Result<std::string> exchange(std::string frame);
  Result<void> transfer(const std::string& frame, std::string& answer);
  Result<void> await(short events, RunningClock& clock);

  const OwnedFile socket_;
  std::atomic<std::chrono::milliseconds::rep> limit_ms_;
  std::string local_address_;
  std::mutex mutex_;  // held for one request and its answer
  std::optional<Diagnostic> lost_;
  bool closed_ = false;  // by the server
};

/// An address that other machines reach is an error, unless `where` has a secret or is insecure.
Result<void> check_reach(const Rendezvous& where, const Address& address);

}  // namespace rannc::runtime
