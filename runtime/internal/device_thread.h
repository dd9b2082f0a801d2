/// A thread that runs the jobs of one device, one at a time.
#pragma once

#include <unistd.h>

#include <cfenv>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace rannc::runtime {

/// Reused across steps, because LibTorch's per-thread state is expensive to create. `wait` returns when the posted job
/// is done. Posting before that is a bug. Numbers are rounded to nearest and denormal ones are kept, though a thread
/// inherits other settings of the processor from the one that starts it.
class DeviceThread {
 public:
  DeviceThread() : state_(std::make_unique<State>()) {
    state_->thread = std::thread([state = state_.get()] { loop(*state); });
  }
  /// A forked process leaves everything as it is: a condition with a waiting thread cannot be destroyed.
  ~DeviceThread() {
    if (!exists()) {
      static_cast<void>(state_.release());
      return;
    }
    {
      const std::lock_guard lock(state_->mutex);
      state_->stop = true;
    }
    state_->changed.notify_all();
    state_->thread.join();
  }
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  /// Whether this process has the thread. A forked one has only that which forked: then nothing may be posted.
  bool exists() const { return process_ == ::getpid(); }

  void post(std::function<void()> job) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->job = std::move(job);
    }
    state_->changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return !state_->job; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> job;
    bool stop = false;
    std::thread thread;
  };

  static void loop(State& state) {
    std::fesetenv(FE_DFL_ENV);
    std::unique_lock lock(state.mutex);
    while (true) {
      state.changed.wait(lock, [&] { return state.stop || state.job; });
      if (!state.job) return;
      lock.unlock();
      state.job();
      lock.lock();
      state.job = nullptr;
      state.changed.notify_all();
    }
  }

  const pid_t process_ = ::getpid();
  std::unique_ptr<State> state_;
};

}  // namespace rannc::runtime
