/// The progress bar of a training run.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/stopwatch.h"

namespace rannc::tools {

/// `2444 tokens/s`, of so many tokens and samples a step; samples are counted where they have no length and `tokens` is
/// 0.
std::string speed_text(double steps_per_second, uint64_t tokens, uint64_t samples);

/// On a terminal one line that is drawn again: bar, step, loss, speed, time left. Elsewhere about twenty lines in all.
class Progress {
 public:
  /// `shown` is false in workers that are not the first.
  Progress(bool shown, uint64_t steps);
  /// After a step of so many tokens and samples.
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
