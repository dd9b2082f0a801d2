/// Writes to a connection that the peer has closed.
#pragma once

#include <csignal>
#include <ctime>

namespace rannc::runtime {

/// Keeps SIGPIPE from this thread while it exists, and for good from threads that start meanwhile. Gloo writes to
/// sockets without MSG_NOSIGNAL, so the end of one worker would end those that write to it. A library must not change
/// the handlers of its process.
class NoBrokenPipes {
 public:
  NoBrokenPipes() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    const sigset_t set = broken_pipe();
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~NoBrokenPipes() {
    const sigset_t set = broken_pipe();
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&set, nullptr, &now) == SIGPIPE) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipes(const NoBrokenPipes&) = delete;
  NoBrokenPipes& operator=(const NoBrokenPipes&) = delete;

 private:
  static sigset_t broken_pipe() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
  }

  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace rannc::runtime
