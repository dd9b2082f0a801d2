/// What all threads of one process share in a run.
#pragma once

#include <fmt/format.h>

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
    return await(lock, condition, what, [] { return false; });
  }

  /// The same on a thread in the background. `lock` is not held before.
  template <class Condition>
  Result<void> await(Lock& lock, Condition condition, const std::string& what, BackgroundWait& background) {
    // The end of a wait does not lock: it may come while `ended` is asked with the lock. The next tick sees it.
    const BackgroundWait::Scope scope(background, what, [this] { changed_.notify_all(); });
    lock.lock();
    RANNC_TRY(await(lock, condition, what, [&] { return background.ended(); }));
    if (!condition()) return BackgroundWait::ended_error();
    return {};
  }

  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Diagnostic> failure_;

 private:
  template <class Condition, class Stops>
  Result<void> await(Lock& lock, Condition& condition, const std::string& what, Stops stops) {
    const auto looks = [&] { return failure_.has_value() || condition() || stops(); };
    RunningClock clock;
    for (auto passed = clock.now(); !looks(); passed = clock.now()) {
      if (passed >= timeout_) return error(fmt::format("waited {} ms for {}", timeout_.count(), what));
      changed_.wait_for(lock, std::min(RunningClock::kTick, timeout_ - passed));
    }
    if (failure_) return *failure_;
    return {};
  }
};

}  // namespace rannc::runtime
