/// Files and folders that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc {

/// What is made beside its place and moved there when it is whole; without `commit` nothing is left of it.
class Replacement {
 public:
  /// `path` is its place. Nothing is made yet.
  explicit Replacement(std::string path);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  /// Where to make it: a name beside `path` that is this process's own.
  const std::string& temporary() const { return temporary_; }
  /// Moves it to its place, over what is there.
  Result<void> commit();

 private:
  std::string path_, temporary_;
  bool done_ = false;
};

/// Moves a file or folder to `path` in one step, over what is there: an old folder is moved aside first, and back where
/// the move fails. Both lie on one file system.
Result<void> move_into_place(const std::string& temporary, const std::string& path);

/// Makes `path` a file of this content.
Result<void> write_file(const std::string& path, std::string_view content);

}  // namespace rannc
