#include "tools/common/run_signals.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace rannc::tools {

namespace {

// One request may arrive as several signals: `timeout` signals the program and then the group of both.
constexpr int64_t kOneWishNs = 300'000'000;
constexpr std::string_view kNotice = "\nending after this step; repeat to end at once\n";

// A signal handler can access only globals.
std::atomic<int> g_stop_signal{0};
std::atomic<int64_t> g_stop_signal_ns{0};
std::atomic<bool> g_announces{false}, g_second_ends{false};
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void on_signal(int number) {
  int none = 0;
  if (g_stop_signal.compare_exchange_strong(none, number)) {
    g_stop_signal_ns = now_ns();
    if (g_announces) [[maybe_unused]]
      const ssize_t written = write(STDERR_FILENO, kNotice.data(), kNotice.size());
  } else if (g_second_ends && g_stop_signal_ns != 0 && now_ns() - g_stop_signal_ns > kOneWishNs) {
    _exit(exit_of(number));
  }
}

sigset_t both() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

RunSignals::RunSignals(Options options) {
  g_stop_signal = 0;
  g_stop_signal_ns = 0;
  g_announces = options.announces;
  g_second_ends = options.second_ends;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGTERM, &action, &old_terminate_);
  const sigset_t set = both();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

RunSignals::~RunSignals() {
  if (g_stop_signal != 0) return;  // a duplicate signal must not interrupt the orderly end
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
}

int RunSignals::stop_signal() const { return g_stop_signal; }

void hold_signals() {
  const sigset_t set = both();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace rannc::tools
