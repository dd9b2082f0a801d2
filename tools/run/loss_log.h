/// Losses of a run's steps, kept over its ends and resumptions.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// A file with a line per step: number and loss as a hexadecimal float. Written through line by line, so that a run
/// that is killed leaves what it has done.
class LossLog {
 public:
  /// Goes on before step `first_step`: what the file says of earlier steps stays, what it says of later ones goes. 0: a
  /// new file.
  static Result<LossLog> open(const std::string& path, uint64_t first_step);

  /// Steps follow each other.
  Result<void> add(uint64_t step, double loss);

  /// Losses of steps `first()`, `first()` + 1 … up to the last, as far back as none is missing.
  const std::vector<double>& losses() const { return losses_; }
  uint64_t first() const { return first_; }

 private:
  explicit LossLog(std::string path) : path_(std::move(path)) {}
  Result<void> read(uint64_t before);
  void keep(uint64_t step, double loss);

  std::string path_;
  std::ofstream file_;
  std::vector<double> losses_;
  uint64_t first_ = 0;
};

}  // namespace rannc::tools
