#include "tools/common/stop.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <system_error>

#include "tools/common/units.h"

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

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

SearchStop::SearchStop(std::optional<double> limit_ns) : limit_ns_(limit_ns), started_(now()) {
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

SearchStop::~SearchStop() {
  end();
  close(event_[0]);
  close(event_[1]);
}

double SearchStop::seconds() const { return now() - started_; }

void SearchStop::watch() {
  for (;;) {
    int left = -1;
    if (limit_ns_ && !source_.stop_requested()) {
      const double milliseconds = std::ceil(*limit_ns_ / 1e6 - seconds() * 1e3);
      left = static_cast<int>(std::clamp(milliseconds, 0.0, 1e9));
    }
    pollfd ready{event_[0], POLLIN, 0};
    const int count = poll(&ready, 1, left);
    if (count == 0 && seconds() * 1e9 >= *limit_ns_) {
      out_of_time_ = true;
      source_.request_stop();
    }
    if (count <= 0) continue;
    char what = 0;
    if (read(event_[0], &what, 1) != 1 || what == kEnd) return;
    fmt::print(stderr, "interrupted: continuing with the best plan so far; press Ctrl-C again to abort\n");
    source_.request_stop();
  }
}

std::string SearchStop::end() {
  if (ended_) return reason_;
  ended_ = true;
  sigaction(SIGINT, &former, nullptr);
  [[maybe_unused]] const ssize_t written = write(event_[1], &kEnd, 1);
  watcher_.join();
  if (interrupts > 0) {
    reason_ = fmt::format("the search was interrupted after {:.1f} s: another run may find another plan", seconds());
  } else if (out_of_time_) {
    reason_ = fmt::format("the search was stopped after {} (--time-limit): another run may find another plan",
                          duration(*limit_ns_));
  } else if (limit_ns_) {
    reason_ = fmt::format("results may depend on --time-limit {}: this search finished in time, another may not",
                          duration(*limit_ns_));
  }
  return reason_;
}

}  // namespace rannc::tools
