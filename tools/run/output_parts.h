/// Merges the outputs of a run's workers.
#pragma once

#include <filesystem>

#include "runtime/train/outputs.h"

namespace rannc::tools {

/// Adds the outputs of the other workers to those of worker 0. Uses files in `folder`, which workers need not share.
/// The other workers keep their own outputs. All workers of the run must call it; an error of one is an error of all.
Result<void> gather_parts(runtime::Trainer& trainer, runtime::Outputs& outputs, const std::filesystem::path& folder,
                          uint32_t rank);

}  // namespace rannc::tools
