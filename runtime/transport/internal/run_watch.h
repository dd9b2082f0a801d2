/// Why a run of several processes ended, and who waits meanwhile.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "runtime/transport/internal/gloo_group.h"
#include "runtime/transport/internal/store.h"

namespace rannc::runtime {

/// Sends this worker's heartbeats to the store from a thread of its own, and hears there why the run fails, which wakes
/// what waits. Thread-safe.
class RunWatch {
 public:
  /// `client` outlives the watch.
  explicit RunWatch(StoreClient& client) : client_(client), thread_([this] { loop(); }) {}
  ~RunWatch() { stop(); }

  /// Asks the store no more.
  void stop();
  std::optional<Diagnostic> failure() const;
  /// The first reason wins, here and in the store.
  void abort(const Diagnostic& reason);
  /// Waits for `work`, which an abort wakes. `what` it waits for stands in the error.
  Result<void> wait(const GlooWork& work, const std::string& what, std::chrono::milliseconds timeout);
  /// Why the run fails where `seen` is what this worker sees of it: the reason may come from elsewhere, a little later.
  Diagnostic explained(const Diagnostic& seen);

 private:
  void set(const Diagnostic& reason);
  /// Takes over what the store knows.
  void ask();
  /// Asks for a while, since the reason for what was seen here may be on its way; returns what else is known.
  std::string hear();
  void loop();

  StoreClient& client_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Diagnostic> failure_;
  std::set<c10d::Work*> waiting_;
  RunState state_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rannc::runtime
