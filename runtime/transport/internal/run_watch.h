/// Detects the failure of a multi-process run and wakes its waiters.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "runtime/execute/progress.h"
#include "runtime/transport/internal/gloo_group.h"
#include "runtime/transport/internal/store.h"

namespace rannc::runtime {

/// Sends this worker's heartbeats to the store from its own thread. The answers report a failure of the run, which
/// wakes all waiters. Thread-safe.
class RunWatch {
 public:
  /// `client` must outlive the watch. `progress` may be null; a worker that is declared hung ends the run.
  /// Another worker whose work makes no progress for `timeout` hangs.
  RunWatch(StoreClient& client, std::shared_ptr<Progress> progress, std::chrono::milliseconds timeout)
      : client_(client), progress_(std::move(progress)), timeout_(timeout), thread_([this] { loop(); }) {}
  ~RunWatch() { stop(); }

  /// Calls `on_failure` once the run fails, on any thread; at once if it has failed. Replaces the previous function,
  /// which is not running any more when this returns.
  void on_failure(std::function<void()> on_failure);
  /// Stops all requests to the store.
  void stop();
  std::optional<Diagnostic> failure() const;
  /// Of this worker; may be null.
  Progress* progress() const { return progress_.get(); }
  /// Ends the run. The first reason is kept, here and in the store.
  void abort(const Diagnostic& reason);
  /// Waits for `work`. An abort ends the wait. Errors contain `what`, a description of the awaited event.
  Result<void> wait(const GlooWork& work, const std::string& what, std::chrono::milliseconds timeout);
  /// Returns the reason of a failure that this worker sees as `seen`. Waits a little, because the reason may come from
  /// another worker.
  Diagnostic explained(const Diagnostic& seen);

 private:
  void set(const Diagnostic& reason);
  void call_on_failure();
  /// Sends one heartbeat and records a reported failure.
  void poll(const BusyWorker& own);
  /// Waits a while for the reason, which may still be on its way. Waits longer while another worker may turn out to
  /// hang. Returns what else is known, for messages.
  std::string hear();
  /// Whether the work of another worker has made no progress since `waited` ago. Requires the lock.
  bool may_hang(std::chrono::milliseconds waited) const;
  BusyWorker own_work();
  void loop();

  StoreClient& client_;
  const std::shared_ptr<Progress> progress_;
  const std::chrono::milliseconds timeout_;
  StallClock stalls_;  // of the thread
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Diagnostic> failure_;
  std::set<c10d::Work*> waiting_;
  std::mutex on_failure_mutex_;  // held during the call
  std::function<void()> on_failure_;
  RunState state_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rannc::runtime
