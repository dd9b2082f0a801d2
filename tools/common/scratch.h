/// Owns a temporary folder.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// A temporary folder in the system's temporary directory, removed by the destructor.
class Scratch {
 public:
  Scratch() : path_((std::filesystem::temp_directory_path() / "rannc-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw Error(error({path_, 0, 0, {}}, "cannot create a temporary folder"));
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rannc::tools
