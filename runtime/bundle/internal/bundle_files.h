/// Which files a bundle consists of.
#pragma once

#include <string>
#include <vector>

namespace rannc::runtime {

/// Files of a bundle of so many stages, beside its manifest and `kStateFile`.
std::vector<std::string> bundle_files(size_t stages);

}  // namespace rannc::runtime
