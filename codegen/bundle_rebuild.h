/// Compiles the stages of an existing bundle again.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/bundle_writer.h"

namespace rannc::codegen {

struct RebuildOptions {
  /// Its `options` are those of the bundle.
  NativeForm form;
  /// Program `rannc-stage`, for bundles whose stages have executables.
  std::string stage_program = {};
  /// Stages of another compiler, or other flags, are stale.
  bool same_compiler = false;
  /// Loads a compiled stage and returns the fingerprints of its functions by name; empty: stages are not loaded.
  /// Errors: why this process cannot load it.
  std::function<Result<std::map<std::string, std::string>>(const std::string& compiled)> load = {};
  /// Called with the bundle before its stages are compiled, for example to load its libraries.
  std::function<Result<void>(const runtime::Bundle& bundle)> prepare = {};
};

/// Compiles the stages of a bundle of form `native` again if any of its sources, compiled stages, executables or the
/// record of the compilation is damaged, missing, or not what this build of rannc and this LibTorch make of the plan.
/// Plan, weights, other files in the folder and the recorded choice of loops are kept. The folder is replaced in one
/// step, as by `write_bundle`. Returns what was stale; empty: nothing was, and nothing was written. Errors: those of
/// `runtime::open_to_rebuild` and of `write_bundle`. An error leaves the bundle as it was.
Result<std::vector<std::string>> rebuild_bundle(const std::string& path, const RebuildOptions& options);

}  // namespace rannc::codegen
