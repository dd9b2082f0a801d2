/// Lists the files of a bundle.
#pragma once

#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

/// Returns the files of a bundle with `stages` stages, except its manifest and `kStateFile`.
std::vector<std::string> bundle_files(size_t stages, BundleForm form);

}  // namespace rannc::runtime
