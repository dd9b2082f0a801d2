#include "ir/base/replacement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "ir/base/process_mark.h"

namespace rannc {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;  // as Linux follows

fs::path behind_links(fs::path path) {
  std::error_code failed;
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(path, failed)); ++i) {
    path = path.parent_path() / fs::read_symlink(path, failed);
  }
  return path;
}

constexpr std::string_view kPartial = ".partial-", kOld = ".old";
// Nobody writes for so long without a change.
constexpr std::chrono::hours kLongestSilence{24};

fs::file_time_type last_change(const fs::path& path) {
  std::error_code failed;
  fs::file_time_type last = fs::last_write_time(path, failed);
  if (!fs::is_directory(fs::symlink_status(path, failed))) return last;
  for (fs::recursive_directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code gone;
    const auto time = fs::last_write_time(it->path(), gone);
    if (!gone) last = std::max(last, time);
  }
  return last;
}

bool is_abandoned(const fs::path& partial, std::string_view mark) {
  switch (state_of(mark)) {
    case ProcessState::kRuns:
      return false;
    case ProcessState::kGone:
      return true;
    case ProcessState::kUnknown:
      return fs::file_time_type::clock::now() - last_change(partial) > kLongestSilence;
  }
  return false;
}

/// Removes what killed processes left beside `place`. A folder that one of them had moved aside returns.
void remove_abandoned(const fs::path& place) {
  const std::string prefix = place.filename().string() + std::string(kPartial);
  const fs::path folder = place.has_parent_path() ? place.parent_path() : ".";
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    std::string_view mark = std::string_view(name).substr(prefix.size());
    if (mark.ends_with(kOld)) mark.remove_suffix(kOld.size());
    if (is_abandoned(it->path(), mark)) found.push_back(it->path());
  }
  for (const fs::path& each : found) {
    std::error_code ignored;
    if (each.string().ends_with(kOld) && !fs::exists(fs::symlink_status(place, ignored)))
      fs::rename(each, place, ignored);
    fs::remove_all(each, ignored);
  }
}

std::string temporary_of(const std::string& place) {
  const std::string suffix = fmt::format("{}{}", kPartial, process_mark());
  if (!is_stream(place)) {
    remove_abandoned(place);
    return place + suffix;
  }
  static std::atomic<uint64_t> count{0};
  std::error_code failed;
  return fs::temp_directory_path(failed) / fmt::format("rannc-{}{}", count++, suffix);
}

}  // namespace

bool is_stream(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::is_other(status)) return true;
  const std::string name = fs::absolute(path, failed).lexically_normal();
  const bool is_open_file = name == "/dev/stdout" || name == "/dev/stderr" || name.starts_with("/dev/fd/");
  return is_open_file || (name.starts_with("/proc/") && fs::is_regular_file(status));
}

Replacement::Replacement(const std::string& path)
    : path_(is_stream(path) ? path : behind_links(path).string()), temporary_(temporary_of(path_)) {}

Replacement::~Replacement() {
  std::error_code ignored;
  if (!done_) fs::remove_all(temporary_, ignored);
}

Result<void> Replacement::commit() {
  RANNC_TRY(move_into_place(temporary_, path_));
  done_ = true;
  return {};
}

namespace {

/// Exchanges two folders in one step. False where one is absent or the file system cannot do it.
bool exchange(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

Diagnostic unwritable(const std::string& path, const std::string& why) {
  return error({path, 0, 0, {}}, "cannot be written: " + why);
}

Result<void> copy_to_stream(const std::string& from, const std::string& stream) {
  std::error_code failed;
  if (!fs::is_regular_file(from, failed)) return unwritable(stream, "it is no folder");
  std::ifstream source(from, std::ios::binary);
  std::ofstream to(stream, std::ios::binary | std::ios::app);
  if (fs::file_size(from, failed) > 0) to << source.rdbuf();
  if (!to.flush()) return unwritable(stream, std::strerror(errno));
  return {};
}

}  // namespace

Result<void> move_into_place(const std::string& temporary, const std::string& path) {
  const auto failed = [&](const std::error_code& code) { return unwritable(path, code.message()); };
  std::error_code code, ignored;
  if (is_stream(path)) {
    RANNC_TRY(copy_to_stream(temporary, path));
    fs::remove(temporary, ignored);
    return {};
  }
  const std::string old = temporary + std::string(kOld);
  // A rename replaces a file, but not a non-empty folder.
  const bool folder = fs::is_directory(fs::symlink_status(path, ignored));
  if (folder && !fs::is_directory(temporary, ignored)) return unwritable(path, "it is a folder");
  if (folder && exchange(temporary, path)) {
    fs::remove_all(temporary, ignored);
    return {};
  }
  if (folder) fs::rename(path, old, code);
  if (code) return failed(code);
  fs::rename(temporary, path, code);
  if (code) {
    if (folder) fs::rename(old, path, ignored);
    return failed(code);
  }
  fs::remove_all(old, ignored);
  return {};
}

Result<void> write_file(const std::string& path, std::string_view content) {
  Replacement file(path);
  {
    std::ofstream stream(file.temporary(), std::ios::binary | std::ios::trunc);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!stream.flush()) return unwritable(path, std::strerror(errno));
  }
  return file.commit();
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return error({.file = path}, "cannot be opened");
  try {
    return std::string((std::istreambuf_iterator<char>(file)), {});
  } catch (const std::ios_base::failure& failure) {  // a folder can be opened, but not read
    return error({.file = path}, std::string("cannot be read: ") + failure.what());
  }
}

}  // namespace rannc
