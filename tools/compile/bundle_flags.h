/// Flags of `rannc-compile BUNDLE`, which plans the model of a bundle again.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tools/compile/compile_flags.h"
#include "tools/compile/native_form.h"
#include "tools/compiler/bundle_model.h"

namespace rannc::tools {

/// Whether the path names a folder with a manifest or a plan, which may be damaged.
bool is_bundle(const std::string& path);

/// Throws a usage error if a flag is given that the bundle decides, or none for the output.
void check_bundle_flags(const CLI::App& app, const std::string& bundle);

/// Sets the form of the bundle and, unless `--cluster` is given, a cluster of this machine's workers: as many as the
/// bundle's plan has, or `--devices`. Errors: the plan is for other devices.
Result<void> complete_flags(const PlannedBundle& bundle, const CLI::App& app, CompileFlags& flags, FormFlags& form);

}  // namespace rannc::tools
