/// A table that the workers of a run share over TCP, which knows who of them is alive.
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

/// A socket that listens on `port` of every interface of this machine; port 0: one that is free.
Result<int> listen_on(uint16_t port);
uint16_t port_of(int listening_socket);

/// Serves the table from a thread of its own. A worker that goes without leaving, or that is silent for `patience`,
/// is why the run fails, unless another reason was first.
class StoreServer {
 public:
  /// Owns `listening_socket`.
  StoreServer(int listening_socket, uint32_t workers, std::chrono::milliseconds patience);
  ~StoreServer();
  /// Waits until no other worker is there, at most so long.
  void await_others(uint32_t own_rank, std::chrono::milliseconds limit);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a heartbeat is answered.
struct RunState {
  std::string failure;   ///< why the run fails; empty: it doesn't
  uint64_t present = 0;  ///< workers that have joined
  std::string missing;   ///< those that have not, for people
  uint64_t silent_rank = 0;
  std::chrono::milliseconds silence{0};  ///< of that worker, the most silent one
};

/// One worker's connection to the store. Thread-safe. No call waits longer than its limit: a server that does not
/// answer within it is lost, and every later call says so at once.
class StoreClient {
 public:
  /// Connects, again and again for as long as nobody listens, and says who this is.
  static Result<std::unique_ptr<StoreClient>> join(const std::string& host, uint16_t port, uint32_t rank,
                                                   uint32_t workers, std::chrono::milliseconds timeout);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  Result<std::optional<std::string>> get(const std::string& key);
  Result<void> set(const std::string& key, const std::string& value);
  Result<int64_t> add(const std::string& key, int64_t value);
  Result<RunState> beat();
  /// Ends the run for all; returns the reason that was first.
  Result<std::string> fail(const std::string& reason);
  /// Says that this worker has done its part. Waits for nothing.
  void leave();
  /// From now on no call takes longer than this; one that has waited longer already ends.
  void hurry(std::chrono::milliseconds limit);

  /// Numeric address of this machine's interface that reaches the store.
  const std::string& local_address() const { return local_address_; }

 private:
  StoreClient(int socket, std::chrono::milliseconds timeout);
  /// The answer's frame without its length.
  Result<std::string> ask(std::string frame);
  Result<void> transfer(const std::string& frame, std::string& answer);
  Result<void> await(short events, RunningClock& clock);

  int socket_;
  std::atomic<std::chrono::milliseconds::rep> limit_ms_;
  std::string local_address_;
  std::mutex mutex_;  // of one request and its answer
  std::optional<Diagnostic> lost_;
};

}  // namespace rannc::runtime
