/// State of a run that all threads of one process share.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/execute/running_clock.h"
#include "runtime/transport/internal/background_wait.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// The first failure, and waits of limited length. Thread-safe.
class LocalRun {
 public:
  explicit LocalRun(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  virtual ~LocalRun() = default;
  LocalRun(const LocalRun&) = delete;
  LocalRun& operator=(const LocalRun&) = delete;

  void abort(const Diagnostic& reason) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = reason;
    forget_messages();
    changed_.notify_all();
  }

  std::optional<Diagnostic> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 protected:
  using Lock = std::unique_lock<std::mutex>;

  /// Frees values that nobody will take. Called with the lock.
  virtual void forget_messages() = 0;

  /// Waits for a condition, which is checked with the lock.
  template <class Condition>
  Result<void> await(Lock& lock, Condition condition, const std::string& what) {
    return await(
        lock, condition, [] { return false; }, timeout_, what);
  }

  /// The same on a thread in the background, whose waits others limit. `lock` is not held before.
  template <class Condition>
  Result<void> await(Lock& lock, Condition condition, const std::string& what, BackgroundWait& background) {
    // The end of a wait does not lock, because `ended` locks on its side. The next tick sees an end that is missed.
    const BackgroundWait::Scope scope(background, what, [this] { changed_.notify_all(); });
    lock.lock();
    constexpr auto kNoLimit = std::chrono::milliseconds::max();
    RANNC_TRY(await(
        lock, condition, [&] { return background.ended(); }, kNoLimit, what));
    if (!condition()) return BackgroundWait::ended_error();
    return {};
  }

  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Diagnostic> failure_;

 private:
  template <class Condition, class Ended>
  Result<void> await(Lock& lock, Condition& condition, Ended ended, std::chrono::milliseconds limit,
                     const std::string& what) {
    RunningClock clock;
    for (auto passed = clock.now(); !failure_ && !condition() && !ended(); passed = clock.now()) {
      if (passed >= limit) return error(fmt::format("waited {} ms for {}", limit.count(), what));
      changed_.wait_for(lock, std::min(RunningClock::kTick, limit - passed));
    }
    if (failure_) return *failure_;
    return {};
  }
};

}  // namespace rannc::runtime
