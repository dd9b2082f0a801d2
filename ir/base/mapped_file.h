/// A read-only view of a whole file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc {

/// Maps a regular file until destruction. The file must not be truncated meanwhile. Movable, not copyable.
class MappedFile {
 public:
  /// Errors: no such file, not a regular file, an empty file, more than `max_bytes` bytes.
  static Result<MappedFile> open(const std::filesystem::path& path,
                                 uint64_t max_bytes = std::numeric_limits<uint64_t>::max());
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};

}  // namespace rannc
