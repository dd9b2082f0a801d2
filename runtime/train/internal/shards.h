/// Lists the files of a data set.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

/// Returns `path` if it is no folder, else the regular files in it with this extension, sorted by name. Hidden files
/// are skipped. Errors: no such file or folder, a folder without such files.
Result<std::vector<std::string>> shards_of(const std::string& path, const std::string& extension);

}  // namespace rannc::runtime
