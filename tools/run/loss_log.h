/// Records the losses of a run's steps across resumptions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/run/step_lines.h"

namespace rannc::tools {

/// A file with a line per step: its number and its loss as a hexadecimal float (`StepLines`).
class LossLog {
 public:
  /// Opens the log to continue with step `first_step`. Keeps the lines of earlier steps, also where a step
  /// is missing, and removes those of later ones. 0 starts a new file.
  static Result<LossLog> open(const std::string& path, uint64_t first_step);

  /// Appends the next step. Steps must be consecutive.
  Result<void> add(uint64_t step, double loss);

  /// Losses of steps `first()`, `first()` + 1, … up to the last, as far back as no step is missing.
  const std::vector<double>& losses() const { return losses_; }
  uint64_t first() const { return first_; }

 private:
  void keep(uint64_t step, double loss);

  StepLines lines_;
  std::vector<double> losses_;
  uint64_t first_ = 0;
};

}  // namespace rannc::tools
