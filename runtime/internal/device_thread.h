/// A thread that runs the jobs of one device, one at a time.
#pragma once

#include <cfenv>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace rannc::runtime {

/// Reused across steps, because LibTorch's per-thread state is expensive to create. `wait` returns when the posted job
/// is done. Posting before that is a bug. Numbers are rounded to nearest and denormal ones are kept, though a thread
/// inherits other settings of the processor from the one that starts it.
class DeviceThread {
 public:
  DeviceThread() : thread_([this] { loop(); }) {}
  ~DeviceThread() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  void post(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      job_ = std::move(job);
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !job_; });
  }

 private:
  void loop() {
    std::fesetenv(FE_DFL_ENV);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || job_; });
      if (!job_) return;
      lock.unlock();
      job_();
      lock.lock();
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool stop_ = false;
  std::thread thread_;  // last: starts after all other members exist
};

}  // namespace rannc::runtime
