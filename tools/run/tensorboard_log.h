/// Records the measurements of a run's steps for TensorBoard.
#pragma once

#include <fstream>
#include <string>

#include "tools/run/step_log.h"

namespace rannc::tools {

/// A file of TensorBoard events: records of the TFRecord format that hold `tensorflow.Event` messages. Each step is
/// flushed. https://github.com/tensorflow/tensorboard, `event.proto`; https://www.tensorflow.org, TFRecord.
class TensorBoardLog {
 public:
  /// Creates a new file in the folder, which is created if missing. After `done` > 0 steps, TensorBoard discards what
  /// earlier files of the folder contain about later ones.
  static Result<TensorBoardLog> open(const std::string& folder, uint64_t done);
  /// Adds a scalar per measurement, under the names of the fields of `StepLog`.
  Result<void> add(const StepFacts& facts);

 private:
  explicit TensorBoardLog(std::string path) : path_(std::move(path)) {}
  Result<void> write(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

}  // namespace rannc::tools
