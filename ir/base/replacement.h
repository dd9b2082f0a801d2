/// Atomic replacement of files and folders, and reading of files.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc {

/// Whether `path` is a device, a FIFO, a socket or an open file in `/dev/fd`. It is written to, never replaced.
bool is_stream(const std::string& path);

/// A file or folder that is written to a temporary name and moved into place by `commit`. The destructor removes it if
/// it was not committed.
class Replacement {
 public:
  /// `path` is the final place, or a symbolic link to it, which stays. Creates nothing yet. Removes what killed
  /// processes left of earlier replacements of this path.
  explicit Replacement(const std::string& path);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  /// Where to write: a name that is unique to this process, beside the final place or, for a stream, in the folder of
  /// temporary files.
  const std::string& temporary() const { return temporary_; }
  /// Moves it to the final place and replaces what is there, or copies it to a stream.
  Result<void> commit();

 private:
  std::string path_, temporary_;
  bool done_ = false;
};

/// Moves a file or folder to `path` in one step. Only a file replaces a file, and a folder a folder. Where the file
/// system cannot exchange folders, an old folder is moved aside first, and back if the move fails. Both paths must lie
/// on one file system. A file is copied to a stream.
Result<void> move_into_place(const std::string& temporary, const std::string& path);

/// Writes `content` to the file `path`.
Result<void> write_file(const std::string& path, std::string_view content);

/// Returns all bytes of a file.
Result<std::string> read_file(const std::string& path);

}  // namespace rannc
