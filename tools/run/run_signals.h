/// Ctrl-C and SIGTERM as the wish that a run ends.
#pragma once

#include <signal.h>

namespace rannc::tools {

/// The exit code of a process that a signal ended in order.
constexpr int exit_of(int signal_number) { return 128 + signal_number; }

/// While it lives, the first SIGINT or SIGTERM is remembered. One at a time in a process; the former treatment comes
/// back at the end, unless a signal has come: then the process is about to end, and what comes twice, from a terminal
/// and a launcher, does not cut that off. Signals that were blocked before it came arrive now.
class RunSignals {
 public:
  struct Options {
    bool announces = true;    ///< says on standard error what the signal does
    bool second_ends = true;  ///< another signal ends the process at once; false: whoever started it sees to that
  };
  explicit RunSignals(Options options);
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// Number of the first signal so far; 0: none.
  int asked() const;

 private:
  struct sigaction old_interrupt_ = {}, old_terminate_ = {};
};

/// Keeps both signals for a program that is about to replace this one, until it has its `RunSignals`.
void hold_signals();

}  // namespace rannc::tools
