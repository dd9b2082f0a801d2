/// `rannc-compile --rebuild`: compiles the stages of a bundle again.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// Compiles the stages of the bundle again if any is stale, with the compiler `cxx` (`find_compiler`). Prints what was
/// stale. `libraries`: other paths of the bundle's libraries of operators.
Result<void> rebuild(const std::string& bundle, const std::string& cxx, const std::vector<std::string>& libraries);

}  // namespace rannc::tools
