/// Loads shared libraries of custom operators for the command-line tools.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "runtime/bundle/libraries.h"

namespace rannc::tools {

/// Adds `--load-library FILE`, which may be repeated.
void add_library_flag(CLI::App& app, std::vector<std::string>& libraries);

/// Loads the libraries in order. Returns the entries that a bundle records for them.
Result<std::vector<runtime::Library>> load_libraries(const std::vector<std::string>& paths);

}  // namespace rannc::tools
