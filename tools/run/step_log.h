/// Records the measurements of a run's steps as JSON, across resumptions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/validation.h"
#include "tools/run/step_lines.h"

namespace rannc::tools {

/// Measurements of one step.
struct StepFacts {
  uint64_t done = 0;            ///< steps done, this one included
  std::optional<double> epoch;  ///< passes over the samples done, if the source has epochs
  double loss = 0;
  double learning_rate = 0;
  double seconds = 0;   ///< duration, without validation
  uint64_t tokens = 0;  ///< 0 if samples have no length
  uint64_t samples = 0;
  double gradient_norm = 0;               ///< 0: not computed
  std::map<std::string, double> metrics;  ///< that the model computes of sums over the mini-batch
  std::optional<runtime::ValidationResult> validation;
};

/// Returns the measurements of a step, without metrics of the user, by the names of the log's fields.
std::vector<std::pair<std::string, double>> measurements(const StepFacts& facts);

/// A file with a JSON object per line and step (`StepLines`).
class StepLog {
 public:
  /// Opens the log to continue after `done` steps. Keeps the lines of these steps and removes those of later ones. 0
  /// starts a new file. Errors name the line: it is not an object of this form.
  static Result<StepLog> open(const std::string& path, uint64_t done);
  Result<void> add(const StepFacts& facts);

 private:
  StepLines lines_;
};

}  // namespace rannc::tools
