/// Recognizes files that are no lists of tokens.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

/// Returns an error if a file with these bytes has a known format other than those of `token_files.h`: tables,
/// archives, compressed files, text. It names the file, the format and a way to convert it.
Result<void> check_not_foreign(const std::string& path, std::string_view bytes);

}  // namespace rannc::runtime
