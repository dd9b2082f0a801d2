/// Files of training text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

struct TextFiles {
  std::vector<std::string> paths;  ///< in the given order; those of a folder by name
  size_t skipped = 0;              ///< files in folders that are empty or no text
};

/// Finds files and, in folders, text files. Hidden entries of folders, links and folders named `build` are left out.
/// Text has no zero bytes. Errors: a path that does not exist, or a file of another kind that is named itself.
Result<TextFiles> find_text_files(const std::vector<std::string>& paths);

}  // namespace rannc::runtime
