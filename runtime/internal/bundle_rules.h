/// The verifier of bundles, which opens what it verifies.
#pragma once

#include <optional>

#include "runtime/bundle.h"

namespace rannc::runtime {

/// Files that a bundle of so many stages consists of, beside its manifest.
std::vector<std::string> bundle_files(size_t stages);

/// Everything wrong, in the order of the rules; fills `bundle` where nothing is.
std::vector<Diagnostic> verify_bundle(const std::string& path, std::optional<Bundle>& bundle);

}  // namespace rannc::runtime
