/// Appends to text files with a line per step, across resumptions of a run.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// The form of a file's lines.
struct StepLineForm {
  const char* expected;          ///< what a line is, for messages
  std::string_view first_chars;  ///< with which a line may begin
  /// Returns the number of steps done after a line; nothing if the line has another form.
  std::function<std::optional<uint64_t>(const std::string& line)> steps_done;
};

/// A file that is cut at a step, then extended. Each line is flushed, so that a killed run loses at most the last one.
class StepLines {
 public:
  /// Opens the file to continue after `done` steps: removes the lines from the first later step on, and a last line
  /// without a newline, which a killed run left. 0 starts a new file. Errors name a line of another form.
  static Result<StepLines> open(const std::string& path, uint64_t done, const StepLineForm& form);
  StepLines() = default;
  /// Appends a line, to which it adds the newline.
  Result<void> add(const std::string& line);

 private:
  Result<uint64_t> bytes_until(uint64_t done, const StepLineForm& form) const;
  Diagnostic unwritable() const;

  std::string path_;
  std::ofstream file_;
};

}  // namespace rannc::tools
