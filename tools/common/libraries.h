/// Loads shared libraries of custom operators for the command-line tools.
#pragma once

#include <string>
#include <vector>

#include "runtime/bundle/libraries.h"

namespace rannc::tools {

/// Loads the libraries in order. Returns the entries that a bundle records for them.
Result<std::vector<runtime::Library>> load_libraries(const std::vector<std::string>& paths);

}  // namespace rannc::tools
