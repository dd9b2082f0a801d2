#include "runtime/data/internal/shards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace rannc::runtime {

namespace fs = std::filesystem;

Result<std::vector<std::string>> shards_of(const std::string& path,
                                           std::initializer_list<std::string_view> extensions) {
  std::error_code failed;
  if (!fs::exists(path, failed)) return error({path, 0, 0, {}}, "no such file or folder");
  if (!fs::is_directory(path, failed)) return std::vector{path};
  std::vector<std::string> found, others;
  fs::directory_iterator entry(path, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const fs::path& file = entry->path();
    const bool wanted = std::find(extensions.begin(), extensions.end(), file.extension()) != extensions.end();
    if (file.filename().string().starts_with(".")) continue;
    if (std::error_code ignored; fs::is_regular_file(file, ignored)) (wanted ? found : others).push_back(file.string());
  }
  if (failed) return error({path, 0, 0, {}}, "cannot be listed: " + failed.message());
  if (found.empty()) {
    std::string but;
    if (!others.empty()) but = ", but " + fs::path(*std::min_element(others.begin(), others.end())).filename().string();
    return error({path, 0, 0, {}}, fmt::format("the folder contains no {} file{}", fmt::join(extensions, " or "), but));
  }
  std::sort(found.begin(), found.end());
  for (const std::string& file : found) {
    if (fs::path(file).extension() == fs::path(found[0]).extension()) continue;
    return error({path, 0, 0, {}},
                 fmt::format("the folder contains files of different kinds: {} and {}",
                             fs::path(found[0]).filename().string(), fs::path(file).filename().string()));
  }
  return found;
}

}  // namespace rannc::runtime
