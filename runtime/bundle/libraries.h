/// Shared libraries that bring operators (`TORCH_LIBRARY`), and those that a bundle was compiled with.
#pragma once

#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

/// Loads a shared library for good: what it registers is there from then on, for all of the process. Loading it again
/// changes nothing. Errors: no such file, or why the system does not load it.
Result<Library> load_library(const std::string& path);

/// Loads what a bundle was compiled with: of the files `given` those that have the digest recorded, else the one at the
/// path recorded. Errors: a file is missing or has another digest, or a given one is none of the bundle's.
Result<void> load_libraries(const Bundle& bundle, const std::vector<std::string>& given);

}  // namespace rannc::runtime
