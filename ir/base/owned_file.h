/// Ownership of a file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace rannc {

/// A descriptor that is closed at its end.
class OwnedFile {
 public:
  OwnedFile() = default;
  explicit OwnedFile(int file) : file_(file) {}
  OwnedFile(OwnedFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  OwnedFile& operator=(OwnedFile&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~OwnedFile() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }
  bool valid() const { return file_ >= 0; }
  /// Passes the ownership to the caller.
  int release() { return std::exchange(file_, -1); }

 private:
  int file_ = -1;
};

}  // namespace rannc
