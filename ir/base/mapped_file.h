/// A read-only view of a whole file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc {

/// Maps a regular file until destruction. Where a file was truncated meanwhile, reading its bytes ends the process by
/// SIGBUS: call `check` before. Movable, not copyable.
class MappedFile {
 public:
  /// Errors: no such file, not a regular file, an empty file, more than `max_bytes` bytes.
  static Result<MappedFile> open(const std::filesystem::path& path,
                                 uint64_t max_bytes = std::numeric_limits<uint64_t>::max());
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::string_view bytes() const { return bytes_; }
  /// An error if the file has become shorter. One that was removed or replaced still has its bytes.
  Result<void> check() const;

  struct Place;

 private:
  MappedFile(std::string path, std::string_view bytes, uint64_t device, uint64_t inode);
  std::string path_;
  std::string_view bytes_;
  Place* place_;  // for `mapped_file_at`
  uint64_t device_, inode_;
};

/// Path of the file that is mapped at an address; null if there is none. For handlers of signals.
const char* mapped_file_at(const void* address);

}  // namespace rannc
