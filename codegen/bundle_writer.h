/// Writes a plan as a bundle.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/bundle/bundle.h"

namespace rannc::codegen {

struct BundleOptions {
  /// Write over a bundle that is at the path; without it, anything there is an error.
  bool replace = false;
  /// That the programs need; the manifest records them.
  std::vector<runtime::Library> libraries = {};
};

/// Writes the folder `path` (`NAME.rannc`): plan, a TorchScript program and weights per stage, manifest. It is made as
/// a temporary sibling and renamed at the end, so that `path` is a whole bundle or absent. Errors: the plan's schedule
/// is not lowered; a weight has no bytes; operators without lowering; what the file system says. Nothing is left
/// behind.
Result<void> write_bundle(const ir::Plan& plan, const BundleOptions& options, const std::string& path);

}  // namespace rannc::codegen
