/// The form of a bundle.
#pragma once

#include <string>

#include "rannc/compiler.h"

namespace rannc::tools {

struct FormFlags {
  compiler::Form form = compiler::Form::kInterpreted;
  std::string cxx;  ///< name or path of a compiler; empty: the first of `c++`, `g++` and `clang++` in the PATH
};

/// A compiler of stages, with the user's cache.
struct FoundCompiler {
  std::string path;   ///< of the program
  std::string cache;  ///< folder that keeps compiled stages; empty: none
};

/// Finds the compiler `cxx`, a name or path; empty: the first of `c++`, `g++` and `clang++` in the PATH. Errors: there
/// is none, or it cannot compile for this LibTorch; those of `cxx` name `--cxx`.
Result<FoundCompiler> find_compiler(const std::string& cxx);

/// Returns the programs of the form, with a compiler for `native`. Without one the form is `interpreted`, which
/// is said on standard error. Compiled stages are kept in the user's cache. Errors: the compiler of `--cxx` does not
/// exist or does not work.
Result<compiler::Programs> programs_of(const FormFlags& flags, bool loops);

}  // namespace rannc::tools
