/// Shows the progress of a training run.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/stopwatch.h"

namespace rannc::tools {

/// Formats a speed: `2444 tokens/s`, or samples/s if `tokens` is 0 because samples have no length. `tokens` and
/// `samples` are per step.
std::string speed_text(double steps_per_second, uint64_t tokens, uint64_t samples);

/// A progress bar. On a terminal, one line is redrawn: bar, step, loss, speed, time left, peak memory. Elsewhere,
/// prints about twenty lines in all.
class Progress {
 public:
  /// `shown` is false in all workers but the first.
  Progress(bool shown, uint64_t steps);
  struct StepLoad {
    uint64_t tokens = 0, samples = 0;
    uint64_t peak_bytes = 0;  ///< of this process; 0: unknown
  };
  /// Must be called after each step.
  void step(uint64_t done, double loss, const StepLoad& load);
  /// Prints a line about work between steps, which took `seconds` and does not count for the speed.
  void note(const std::string& line, double seconds);
  void end();

 private:
  bool shown_, terminal_;
  uint64_t steps_;
  uint64_t first_ = 0;  ///< steps done before this run
  bool started_ = false;
  double paused_ = 0;  ///< seconds
  Stopwatch watch_;
};

}  // namespace rannc::tools
