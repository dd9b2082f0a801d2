#include "runtime/data/text_files.h"

#include <algorithm>
#include <filesystem>

#include "ir/base/mapped_file.h"

namespace rannc::runtime {

namespace {

namespace fs = std::filesystem;

void collect(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> entries;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (name.starts_with(".") || name == "build" || fs::is_symlink(entry)) continue;
    if (fs::is_directory(entry)) {
      collect(entry, files);
    } else if (fs::is_regular_file(entry)) {
      files.push_back(entry);
    }
  }
}

Result<bool> is_text(const fs::path& file) {
  RANNC_ASSIGN(const MappedFile mapped, MappedFile::open(file));
  return mapped.bytes().find('\0') == std::string_view::npos;
}

}  // namespace

Result<TextFiles> find_text_files(const std::vector<std::string>& paths) {
  TextFiles found;
  for (const std::string& path : paths) {
    std::error_code failed;
    const auto status = fs::status(path, failed);
    if (failed || !fs::exists(status))
      return error({.file = path}, "cannot be read as training text: there is no such file or folder");
    if (!fs::is_directory(status)) {
      RANNC_ASSIGN(const bool text, is_text(path));
      if (!text) return error({.file = path}, "is no text: it has zero bytes");
      found.paths.push_back(path);
      continue;
    }
    std::vector<fs::path> files;
    collect(path, files);
    for (const fs::path& file : files) {
      const Result<bool> text = is_text(file);
      if (text.ok() && *text) {
        found.paths.push_back(file.string());
      } else {
        ++found.skipped;
      }
    }
  }
  return found;
}

}  // namespace rannc::runtime
