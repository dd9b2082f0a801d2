/// Flags of the form of a bundle.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "codegen/bundle_writer.h"
#include "tools/common/status_line.h"

namespace rannc::tools {

struct FormFlags {
  std::string form = "torchscript";
  std::string cxx;  ///< name or path of a compiler; empty: the first of `c++`, `g++` and `clang++` in the PATH
};

/// Adds `--form` and `--cxx`.
void add_form_flags(CLI::App& app, FormFlags& flags);

/// Returns how to make a bundle of form `native`, or nothing for `torchscript`. Without a compiler the form is
/// `torchscript`, which is said on standard error. Compiled stages are kept in the user's cache. Errors: the compiler
/// of `--cxx` does not exist or does not work.
Result<std::optional<codegen::NativeForm>> native_form(const FormFlags& flags, const ir::Plan& plan,
                                                       StatusLine& status);

}  // namespace rannc::tools
