/// Compiles generated sources into shared libraries.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "runtime/bundle/bundle.h"

namespace rannc::codegen {

/// A C++ compiler that compiles sources against the LibTorch of this process.
class NativeCompiler {
 public:
  /// Runs `path --version`. `cache` is a folder for compiled stages, which is created; empty: none. Errors: the program
  /// cannot be started, or the headers of this process's LibTorch are not beside its libraries.
  static Result<NativeCompiler> open(const std::string& path, std::string cache);

  /// Compiles `source`, a file of `native_source`, into the shared library `output`, or copies an earlier result from
  /// the cache. A result is found by the digest of the source, the headers, the flags, and the versions of compiler and
  /// LibTorch. Safe to call by several threads. Errors: what the compiler printed, shortened.
  Result<void> compile(const std::string& source, const std::string& output) const;

  /// First line of `--version`.
  const std::string& version() const { return version_; }
  /// Flags of functions and of loops, and the instruction sets of the loops.
  std::vector<std::string> flags() const;
  /// What the manifest records of stages that this compiler compiles. `loops`: as in `NativeOptions`.
  runtime::Compilation compilation(bool loops) const;

 private:
  Result<void> run(const std::string& source, const std::string& output, const std::string& scratch) const;

  std::string path_, version_, torch_headers_, cache_;
  std::vector<std::string> function_flags_;
};

}  // namespace rannc::codegen
