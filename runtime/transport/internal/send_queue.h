/// Keeps tensors alive until their sends to one peer complete.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "ir/base/diagnostic.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// c10d's sends can be waited for, but not polled. A thread therefore waits for the oldest send, independently of the
/// device's thread. Sends to one peer complete in order.
class SendQueue {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  /// Waits for a send without a time limit. The text describes the send. An abort of the run or of the send ends the
  /// wait.
  using Wait = std::function<Result<void>(const Work&, const std::string&)>;

  /// `timeout` limits how long `await` waits for one send.
  SendQueue(Wait wait, std::chrono::milliseconds timeout)
      : wait_(std::move(wait)), timeout_(timeout), thread_([this] { loop(); }) {}
  /// Aborts pending sends.
  ~SendQueue() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      if (!pending_.empty()) pending_.front().work->abort();
    }
    changed_.notify_all();
    thread_.join();
  }

  void push(at::Tensor tensor, Work work, std::string what, SentValue sent) {
    const std::lock_guard lock(mutex_);
    pending_.push_back({std::move(tensor), std::move(work), std::move(what), sent});
    changed_.notify_all();
  }

  /// Waits until at most `left` sends are pending, and frees what else is held. After a failed send, every later call
  /// fails.
  Result<void> await(size_t left) {
    std::unique_lock lock(mutex_);
    const Result<void> taken = await(lock, left);
    while (pending_.size() + held_.size() > left && !held_.empty()) held_.pop_front();
    return taken;
  }

 private:
  Result<void> await(std::unique_lock<std::mutex>& lock, size_t left) {
    while (failure_.ok() && pending_.size() > left) {
      const auto goes_on = [this, taken = taken_] { return taken_ != taken || !failure_.ok(); };
      if (changed_.wait_for(lock, timeout_, goes_on)) continue;
      return error(fmt::format("waited {} ms for {}", timeout_.count(), pending_.front().what));
    }
    return failure_;
  }

  struct Pending {
    at::Tensor tensor;  // before the work, which reads it until it is destroyed
    Work work;
    std::string what;
    SentValue sent;
  };

  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !pending_.empty(); });
      if (stop_) return;
      const Pending& oldest = pending_.front();  // stays where it is while others are pushed
      lock.unlock();
      const Result<void> done = wait_(oldest.work, oldest.what);
      lock.lock();
      if (!done.ok() && failure_.ok()) failure_ = done;
      if (oldest.sent == SentValue::kHeldUntilAwaited) held_.push_back(oldest.tensor);
      pending_.pop_front();
      ++taken_;
      changed_.notify_all();
    }
  }

  Wait wait_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  std::deque<at::Tensor> held_;  // taken, but not yet awaited; oldest first
  uint64_t taken_ = 0;
  Result<void> failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rannc::runtime
