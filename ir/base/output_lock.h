/// Keeps two runs from writing to one output.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "ir/base/owned_file.h"

namespace rannc {

/// A lock that ends with its process, however that ends. It holds between all hosts that share the file, if their file
/// system has `flock`; without it, nothing is locked. The process removes the file unless it is killed. Movable, not
/// copyable.
class OutputLock {
 public:
  /// Takes the lock `file`, whose folder must exist, for a process of `program`. The error, located at `output`, names
  /// the process that has it.
  static Result<OutputLock> take(const std::string& file, const std::string& output, std::string_view program);
  /// Takes `<output>.lock` beside a file or folder that need not exist, or beside the target of a symbolic link. What
  /// is written to as a stream needs no lock.
  static Result<OutputLock> take_beside(const std::string& output, std::string_view program);
  OutputLock() = default;
  OutputLock(OutputLock&& other) noexcept = default;
  OutputLock& operator=(OutputLock&& other) noexcept;
  ~OutputLock();

 private:
  OutputLock(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  OwnedFile file_;  // invalid: nothing is locked
};

}  // namespace rannc
