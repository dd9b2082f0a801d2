/// Loads shared libraries of custom operators (`TORCH_LIBRARY`).
#pragma once

#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

/// Loads a shared library. Its registrations stay for the lifetime of the process. Loading it again has no effect.
/// Errors: the file does not exist, or the system cannot load it.
Result<Library> load_library(const std::string& path);

/// Loads the libraries that a bundle was compiled with. Prefers a file of `given` with the recorded digest and falls
/// back to the recorded path. Errors: a file is missing or has another digest, or a given file does not belong to the
/// bundle.
Result<void> load_libraries(const Bundle& bundle, const std::vector<std::string>& given);

}  // namespace rannc::runtime
