/// Keeps two runs from writing to one output.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

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
  OutputLock(OutputLock&& other) noexcept;
  OutputLock& operator=(OutputLock&& other) noexcept;
  ~OutputLock();

 private:
  OutputLock(std::string file, int descriptor) : file_(std::move(file)), descriptor_(descriptor) {}

  std::string file_;
  int descriptor_ = -1;  // -1: nothing is locked
};

}  // namespace rannc
