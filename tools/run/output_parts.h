/// Puts together what the workers of a run made.
#pragma once

#include <filesystem>

#include "runtime/train/outputs.h"

namespace rannc::tools {

/// Adds to worker 0's `outputs` what the other workers have, by files in a folder that all see; they keep theirs. All
/// workers of the run call it; an error of one is an error of all.
Result<void> gather_parts(runtime::Trainer& trainer, runtime::Outputs& outputs, const std::filesystem::path& folder,
                          uint32_t rank, uint32_t workers);

}  // namespace rannc::tools
