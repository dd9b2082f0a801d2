/// The folder of a run: what lies in it, and that no run overwrites another unasked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// Losses of all steps of the run in the folder, by `LossLog`.
inline constexpr const char* kLossesFile = "losses.txt";

/// What a run may do with a folder that holds another.
enum class RunFolderUse {
  kNew,      ///< nothing: that is an error
  kResume,   ///< go on with it
  kReplace,  ///< remove it
};

/// The folder `checkpoints` of a run's folder.
std::filesystem::path checkpoints_of(const std::filesystem::path& folder);

/// A new run needs a folder that holds none, a resumed one a finished checkpoint; errors say what would help. Changes
/// nothing. Every worker may call it before the first step: none has written anything by then.
Result<void> check_run_folder(const std::filesystem::path& folder, RunFolderUse use);

/// Makes the folder; with `kReplace` without checkpoints, trace and report of a run before. One worker calls it.
Result<void> prepare_run_folder(const std::filesystem::path& folder, RunFolderUse use);

}  // namespace rannc::tools
