/// Flags of the form of a bundle.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "rannc/compiler.h"

namespace rannc::tools {

struct FormFlags {
  std::string form = "torchscript";
  std::string cxx;  ///< name or path of a compiler; empty: the first of `c++`, `g++` and `clang++` in the PATH
};

/// Adds `--form` and `--cxx`.
void add_form_flags(CLI::App& app, FormFlags& flags);

/// Returns the options of writing the form, with a compiler for `native`. Without one the form is `torchscript`, which
/// is said on standard error. Compiled stages are kept in the user's cache. Errors: the compiler of `--cxx` does not
/// exist or does not work.
Result<compiler::WriteOptions> form_options(const FormFlags& flags);

}  // namespace rannc::tools
