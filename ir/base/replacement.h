/// Atomic replacement of files and folders, and reading of files.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc {

/// A file or folder that is written to a temporary name and moved into place by `commit`. The destructor removes it if
/// it was not committed.
class Replacement {
 public:
  /// `path` is the final place. Creates nothing yet.
  explicit Replacement(std::string path);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  /// Where to write: a name beside `path` that is unique to this process.
  const std::string& temporary() const { return temporary_; }
  /// Moves it to `path` and replaces what is there.
  Result<void> commit();

 private:
  std::string path_, temporary_;
  bool done_ = false;
};

/// Moves a file or folder to `path` in one step and replaces what is there. Where the file system cannot exchange
/// folders, an old folder is moved aside first, and back if the move fails. Both paths must lie on one file system.
Result<void> move_into_place(const std::string& temporary, const std::string& path);

/// Writes `content` to the file `path`.
Result<void> write_file(const std::string& path, std::string_view content);

/// Returns all bytes of a file.
Result<std::string> read_file(const std::string& path);

}  // namespace rannc
