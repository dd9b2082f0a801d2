/// Writes a plan as a bundle.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/bundle/bundle.h"

namespace rannc::codegen {

struct BundleOptions {
  /// Replace an existing bundle at the path. If false, anything at the path is an error.
  bool replace = false;
  /// Libraries that the programs need. The manifest records them.
  std::vector<runtime::Library> libraries = {};
};

/// Writes the folder `path` (`NAME.rannc`): plan, a TorchScript program and weights per stage, manifest. Assembles it
/// in a temporary sibling and renames that at the end, so that `path` is a complete bundle or absent. Errors: the
/// plan's schedule is not lowered, a weight has no bytes, operators have no lowering, file system errors. An error
/// leaves nothing behind.
Result<void> write_bundle(const ir::Plan& plan, const BundleOptions& options, const std::string& path);

}  // namespace rannc::codegen
