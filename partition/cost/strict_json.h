/// Parses JSON files that may be damaged.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::partition {

/// Parses one document. An incomplete or malformed document is an error with line and column. A duplicate member of an
/// object is an error that names its path; the library alone would silently keep the last one.
Result<nlohmann::json> parse_strict_json(std::string_view text, const std::string& file);

}  // namespace rannc::partition
