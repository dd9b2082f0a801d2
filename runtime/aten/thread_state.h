/// The state of LibTorch and of the processor that belongs to a thread.
#pragma once

#include <ATen/ThreadLocalState.h>

#include <cfenv>
#include <optional>
#include <thread>

namespace rannc::runtime {

/// Gives the calling thread the state of a new thread while it exists, and then its own again. Neither autocast,
/// inference mode, a transform of functorch, a dispatch mode nor a profiler of the caller reaches the calls of LibTorch
/// in between, and numbers are rounded to nearest without flushing denormal ones. Threads that start meanwhile inherit
/// the latter.
class NewThreadState {
 public:
  NewThreadState() : torch_(of_new_thread()) {
    std::fegetenv(&numbers_);
    std::fesetenv(FE_DFL_ENV);
  }
  NewThreadState(const NewThreadState&) = delete;
  NewThreadState& operator=(const NewThreadState&) = delete;
  ~NewThreadState() { std::fesetenv(&numbers_); }

 private:
  static const at::ThreadLocalState& of_new_thread() {
    static const at::ThreadLocalState state = [] {
      std::optional<at::ThreadLocalState> found;
      std::thread([&] { found.emplace(); }).join();
      return *found;
    }();
    return state;
  }

  at::ThreadLocalStateGuard torch_;
  std::fenv_t numbers_;
};

}  // namespace rannc::runtime
