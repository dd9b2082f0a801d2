#include "tools/common/stop.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace rannc::tools {

namespace {

constexpr int kInterrupted = 130;
constexpr char kSignal = 's', kEnd = 'e';

// A signal handler can access only globals.
std::atomic<int> interrupts{0};
std::atomic<int> wake{-1};
struct sigaction former;

void on_interrupt(int) {
  if (interrupts.fetch_add(1) > 0) _exit(kInterrupted);
  [[maybe_unused]] const ssize_t written = write(wake, &kSignal, 1);
}

}  // namespace

InterruptStop::InterruptStop(std::stop_source source) : source_(std::move(source)) {
  if (pipe(event_) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  interrupts = 0;
  wake = event_[1];
  watcher_ = std::thread([this] { watch(); });
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &former);
}

InterruptStop::~InterruptStop() {
  sigaction(SIGINT, &former, nullptr);
  [[maybe_unused]] const ssize_t written = write(event_[1], &kEnd, 1);
  watcher_.join();
  close(event_[0]);
  close(event_[1]);
}

void InterruptStop::watch() {
  char what = 0;
  for (;;) {
    const ssize_t count = read(event_[0], &what, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count != 1 || what == kEnd) return;
    fmt::print(stderr, "interrupted: continuing with the best plan so far; press Ctrl-C again to abort\n");
    source_.request_stop();
  }
}

}  // namespace rannc::tools
