/// Writes a plan as a bundle.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/native_compiler.h"
#include "codegen/native_source.h"
#include "ir/plan/plan.h"
#include "runtime/bundle/bundle.h"

namespace rannc::codegen {

/// How to make a bundle of form `native`.
struct NativeForm {
  NativeCompiler compiler;
  NativeOptions options = {};
  /// Called with the number of compiled stages, from 0, by one thread at a time. Empty: no progress.
  std::function<void(size_t done)> progress = {};
};

struct BundleOptions {
  /// Replace an existing bundle at the path. If false, anything at the path is an error.
  bool replace = false;
  /// Libraries that the programs need. The manifest records them.
  std::vector<runtime::Library> libraries = {};
  /// Write form `native`. Nothing: `interpreted`.
  std::optional<NativeForm> native = {};
  /// Program `rannc-stage`, copied as the executable of every stage; empty: the stages have none.
  std::string stage_program = {};
  /// Adds comments to the text of the plan. Empty: there are none.
  std::function<std::string(const std::string& text)> comment = {};
  /// Writes optional files of the bundle into its folder, such as `runtime::model_file`. Empty: there are none.
  std::function<Result<void>(const std::string& folder)> add_files = {};
};

/// Writes the folder `path` (`NAME.rannc`): plan, weights per stage, manifest. Assembles it in a
/// temporary sibling and renames that at the end, so that `path` is a complete bundle or absent. Errors: the plan's
/// schedule is not lowered, a weight has no bytes, operators have no lowering, a compiler failed, file system errors.
/// An error leaves nothing behind.
Result<void> write_bundle(const ir::Plan& plan, const BundleOptions& options, const std::string& path);

}  // namespace rannc::codegen
