#include "runtime/train/internal/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace rannc::runtime {

namespace fs = std::filesystem;

Result<std::vector<std::string>> shards_of(const std::string& path, const std::string& extension) {
  std::error_code failed;
  if (!fs::exists(path, failed)) return error({path, 0, 0, {}}, "no such file or folder");
  if (!fs::is_directory(path, failed)) return std::vector{path};
  std::vector<std::string> found;
  fs::directory_iterator entry(path, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const fs::path& file = entry->path();
    if (file.extension() != extension || file.filename().string().starts_with(".")) continue;
    if (std::error_code ignored; fs::is_regular_file(file, ignored)) found.push_back(file.string());
  }
  if (failed) return error({path, 0, 0, {}}, "cannot be listed: " + failed.message());
  if (found.empty()) return error({path, 0, 0, {}}, fmt::format("the folder contains no {} file", extension));
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace rannc::runtime
