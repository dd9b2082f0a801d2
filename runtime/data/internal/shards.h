/// Lists the files of a data set.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

/// Returns `path` if it is no folder, else the regular files in it with one of these extensions, sorted by name. Hidden
/// files are skipped. Errors: no such file or folder, a folder without such files or with more than one of the
/// extensions.
Result<std::vector<std::string>> shards_of(const std::string& path, std::initializer_list<std::string_view> extensions);

}  // namespace rannc::runtime
