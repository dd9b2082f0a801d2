/// Runs sums over devices in the background.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/transport/internal/background_wait.h"
#include "runtime/transport/internal/ordered_sum.h"

namespace rannc::runtime {

/// The sums that one device has begun. They start and complete in order, and at most two run at a time: the totals of
/// one are on the way with the terms of the next. A thread of its own waits for other devices and adds. Calls are the
/// device's thread's, but sums may also start on the queue's.
///
/// Since all members begin sums in one order, and each device completes the oldest first, there is always a sum that no
/// member holds up: the first one that is not complete.
class SumQueue {
 public:
  using Start = std::function<OrderedSum()>;
  using Failure = std::function<std::optional<Diagnostic>()>;
  using Explain = std::function<Diagnostic(const Diagnostic&)>;

  /// A sum from its begin on. Belongs to the queue until it is complete.
  struct Sum {
    Start start;  ///< until it has started
    std::optional<OrderedSum> running;
    std::optional<Result<void>> result;
    EventRef done;  ///< with the result
    int64_t finished_ns = 0;
  };

  /// `failure` ends waits of the device. `explain` returns the reason of a failure that this worker sees. Both are
  /// called by both threads. The device waits no longer than `timeout` for one message. Sums are those of a stream of
  /// `memory`.
  SumQueue(Failure failure, Explain explain, std::chrono::milliseconds timeout, Device& memory, Stream stream)
      : failure_(std::move(failure)),
        explain_(std::move(explain)),
        timeout_(timeout),
        memory_(memory),
        stream_(stream) {}
  ~SumQueue() { stop(); }

  std::shared_ptr<Sum> begin(Start start);
  /// Blocks until the sum is complete.
  Result<void> await(const Sum& sum);
  /// Blocks until all sums are complete.
  Result<void> settle();
  /// Ends all sums.
  void stop();
  /// The waits of the queue's thread.
  BackgroundWait& wait() { return wait_; }

 private:
  void loop();
  /// Starts the first sums. Requires the lock.
  void start_some();
  Result<void> run(Sum& sum);
  Result<void> await_result(std::unique_lock<std::mutex>& lock, const Sum& sum);

  const Failure failure_;
  const Explain explain_;
  const std::chrono::milliseconds timeout_;
  Device& memory_;
  const Stream stream_;
  BackgroundWait wait_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Sum>> sums_;  // that are not complete, oldest first
  std::optional<Diagnostic> failed_;       // the first failure of a sum
  bool stop_ = false;
  std::thread thread_;  // since the first sum
};

}  // namespace rannc::runtime
