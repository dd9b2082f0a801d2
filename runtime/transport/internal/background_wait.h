/// Lets a thread that waits for other devices in the background be observed and ended.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

/// The waits of one thread, one at a time. Other threads see what it waits for, and end its waits. Thread-safe.
class BackgroundWait {
 public:
  /// One wait. `end` makes it look at `ended` soon; any thread may call it.
  class Scope {
   public:
    Scope(BackgroundWait& wait, std::string what, std::function<void()> end) : wait_(wait) {
      const std::lock_guard lock(wait_.mutex_);
      ++wait_.count_;
      wait_.what_ = std::move(what);
      wait_.end_ = std::move(end);
      if (wait_.ended_) wait_.end_();
    }
    ~Scope() {
      const std::lock_guard lock(wait_.mutex_);
      wait_.end_ = nullptr;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    BackgroundWait& wait_;
  };

  /// Number of waits so far, and what the last one is for, as errors name it.
  std::pair<uint64_t, std::string> current() const {
    const std::lock_guard lock(mutex_);
    return {count_, what_};
  }
  /// Ends this wait and all later ones.
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (end_) end_();
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  static Diagnostic ended_error() { return error("the transport is closed"); }

 private:
  mutable std::mutex mutex_;
  uint64_t count_ = 0;
  std::string what_;
  std::function<void()> end_;
  bool ended_ = false;
};

}  // namespace rannc::runtime
