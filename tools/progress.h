/// The progress bar of a training run.
#pragma once

#include <cstdint>

#include "ir/stopwatch.h"

namespace rannc::tools {

/// On a terminal one line that is drawn again: bar, step, loss, speed, time left. Elsewhere about twenty lines in all.
class Progress {
 public:
  /// `shown` is false in workers that are not the first.
  Progress(bool shown, uint64_t steps);
  /// After a step; `tokens` of a step, 0 where samples have no length: then samples are counted.
  void step(uint64_t done, double loss, uint64_t tokens, uint64_t samples);
  void end();

 private:
  bool shown_, terminal_;
  uint64_t steps_;
  uint64_t first_ = 0;  ///< steps done before this run
  bool started_ = false;
  Stopwatch watch_;
};

}  // namespace rannc::tools
