/// What all command-line tools share: argument errors, diagnostics, exit codes.
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

/// Parses the command line, to which it adds `--version`, and runs `body`. Prints help to standard output, a diagnostic
/// or a usage error to standard error, and returns the exit code. Exceptions that leave `body` are our defects: code
/// 70, with a request to report.
int run_tool(CLI::App& app, int argc, char** argv, const std::function<Result<void>()>& body);

/// Arguments as a shell would have to be given them.
std::string shell_words(const std::vector<std::string>& arguments);

/// Thrown by `body` to end with another code than those above, such as 130 after an interrupt. Nothing is printed.
struct Exit {
  int code = kOk;
};

}  // namespace rannc::tools
