/// Reads files of text.
#pragma once

#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// Returns all bytes of a file.
Result<std::string> read_text(const std::string& path);

}  // namespace rannc::tools
