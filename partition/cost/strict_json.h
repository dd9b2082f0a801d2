/// JSON that was written by a program and may have been damaged since.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::partition {

/// Parses one document. An incomplete or malformed one is an error with line and column; a member that occurs twice in
/// one object is an error that names its path: the library alone would keep the last and say nothing.
Result<nlohmann::json> parse_strict_json(std::string_view text, const std::string& file);

}  // namespace rannc::partition
