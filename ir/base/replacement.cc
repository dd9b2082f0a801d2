#include "ir/base/replacement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace rannc {

namespace fs = std::filesystem;

Replacement::Replacement(std::string path)
    : path_(std::move(path)), temporary_(fmt::format("{}.partial-{}", path_, ::getpid())) {}

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

}  // namespace

Result<void> move_into_place(const std::string& temporary, const std::string& path) {
  const auto failed = [&](const std::error_code& code) {
    return error({path, 0, 0, {}}, "cannot be written: " + code.message());
  };
  std::error_code code, ignored;
  const std::string old = temporary + ".old";
  // A rename replaces a file, but not a non-empty folder.
  const bool folder = fs::is_directory(fs::symlink_status(path, ignored));
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
    if (!stream.flush()) return error({path, 0, 0, {}}, fmt::format("cannot be written: {}", std::strerror(errno)));
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
