/// Converts the options of `rannc/compiler/read_options.h`.
#pragma once

#include <string>

#include "rannc/compiler/read_options.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Returns why a pass cannot be skipped; empty if it can.
std::string wrong_to_skip(const std::string& pass);

/// Converts the options for a model file. Errors name an option by its flag. Reads no file.
Result<ModelOptions> model_options(const std::string& path, const compiler::ReadOptions& options);

}  // namespace rannc::tools
