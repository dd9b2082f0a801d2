/// Shared libraries of a user's operators, as the command-line tools take them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "runtime/bundle/libraries.h"

namespace rannc::tools {

/// `--load-library FILE`, any number of times.
void add_library_flag(CLI::App& app, std::vector<std::string>& libraries);

/// Loads them, in order; what a bundle says of them.
Result<std::vector<runtime::Library>> load_libraries(const std::vector<std::string>& paths);

}  // namespace rannc::tools
