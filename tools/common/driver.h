/// Handles argument errors, diagnostics and exit codes for all command-line tools.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

enum ExitCode : int {
  kOk = 0,
  kDiagnostics = 1,  ///< the user's model, file, data or network
  kUsage = 2,        ///< the command line
  kInternal = 70,    ///< a defect of rannc
};

/// Adds `--version` to `app`, parses the command line and runs `body`. Prints help to standard output, a diagnostic or
/// a usage error to standard error. Returns the exit code. Exceptions that leave `body` are defects of rannc: the code
/// is 70 and the user is requested to report them. If standard output could not be written, the code is 1 (see
/// `standard_streams.h`).
int run_tool(CLI::App& app, int argc, char** argv, const std::function<Result<void>()>& body);

/// Returns the arguments joined by spaces and quoted for a shell.
std::string shell_words(const std::vector<std::string>& arguments);

/// Thrown by `body` to exit with a code other than those above, such as 130 after an interrupt. Nothing is printed.
struct Exit {
  int code = kOk;
};

}  // namespace rannc::tools
