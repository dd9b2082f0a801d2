/// Memory that processes of one machine share.
#pragma once

#include <cstddef>
#include <span>

#include "ir/base/diagnostic.h"
#include "ir/base/owned_file.h"

namespace rannc::runtime {

/// A mapped range of a memory file. Its size is sealed, so that no process can make another fault by shrinking it.
class SharedMemory {
 public:
  /// Creates a file of `bytes` zeros and reserves its pages, so that memory that is short is an error here instead of a
  /// fault at the first access. The error names the size and the system's reason.
  static Result<SharedMemory> create(size_t bytes);
  /// Maps a range of another process's file. `offset` is a multiple of the page size. Does not take ownership of
  /// `file`. It is an error if the file is smaller than the range or may shrink.
  static Result<SharedMemory> map(int file, size_t offset, size_t bytes);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  /// The descriptor of a created file; -1 for a mapped one.
  int file() const { return file_.get(); }

 private:
  SharedMemory(std::span<std::byte> bytes, OwnedFile file) : bytes_(bytes), file_(std::move(file)) {}

  std::span<std::byte> bytes_;
  OwnedFile file_;
};

/// Size to which offsets into a file are aligned.
size_t page_bytes();

}  // namespace rannc::runtime
