/// Runs a program and waits for it.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc {

struct Ended {
  int status = 0;      ///< exit status; 128 + the signal that ended it
  std::string output;  ///< standard output and standard error
};

/// Runs `command`, whose first word is the path of a program, with an empty standard input. `output` is a file for what
/// it prints. Errors: it cannot be started.
Result<Ended> run_program(const std::vector<std::string>& command, const std::string& output);

}  // namespace rannc
