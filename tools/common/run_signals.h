/// Turns Ctrl-C and SIGTERM into a request to end the run.
#pragma once

#include <signal.h>

namespace rannc::tools {

/// Exit code of a process that ended in order because of a signal.
constexpr int exit_of(int signal_number) { return 128 + signal_number; }

/// Records the first SIGINT or SIGTERM during its lifetime. At most one object may exist in a process. The destructor
/// restores the previous handlers unless a signal has arrived: then the process is about to end, and a duplicate from
/// a terminal and a launcher must not interrupt that. The constructor unblocks both signals, so pending ones arrive.
class RunSignals {
 public:
  struct Options {
    bool announces = true;    ///< prints the effect of the signal to standard error
    bool second_ends = true;  ///< a second signal ends the process at once; false: the parent process does that
  };
  explicit RunSignals(Options options);
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// Number of the first signal so far; 0 if there was none.
  int stop_signal() const;

 private:
  struct sigaction old_interrupt_ = {}, old_terminate_ = {};
};

/// Blocks both signals for the program that is about to replace this one, until it creates its `RunSignals`.
void hold_signals();

}  // namespace rannc::tools
