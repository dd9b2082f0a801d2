/// Protects the folder of a run from unintended overwriting.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/output_lock.h"

namespace rannc::tools {

/// Name of the `LossLog` in the folder, with the losses of all steps of the run.
inline constexpr const char* kLossesFile = "losses.txt";

/// What a run may do with a folder that contains another run.
enum class RunFolderUse {
  kNew,      ///< nothing: this is an error
  kResume,   ///< continue it
  kReplace,  ///< remove it
};

/// The folder `checkpoints` of a run's folder.
std::filesystem::path checkpoints_of(const std::filesystem::path& folder);

/// What is locked: a folder may have an evaluation beside a run.
enum class FolderPart { kRun, kEvaluation };

/// Keeps other runs from a folder. Creates the folder, and removes it in the end if it is still empty.
class FolderLock {
 public:
  /// The error names the other run.
  static Result<FolderLock> take(const std::filesystem::path& folder, FolderPart part);
  FolderLock() = default;
  FolderLock(FolderLock&&) = default;
  FolderLock& operator=(FolderLock&&) = default;
  ~FolderLock();

 private:
  std::vector<std::filesystem::path> created_;  // from the outermost
  OutputLock lock_;
};

/// The checkpoints of a run.
struct RunCheckpoints {
  std::string latest;               ///< the newest complete one; empty if there is none
  std::vector<Diagnostic> damaged;  ///< newer ones
};

/// Checks that the folder of a new run contains no other run, and that the folder of a resumed run has a finished
/// checkpoint. Returns the checkpoints found. Errors suggest a solution. Changes nothing. Every worker may call it
/// before the first step, since none has written anything by then.
Result<RunCheckpoints> check_run_folder(const std::filesystem::path& folder, RunFolderUse use);

/// Creates the folder. `kReplace` removes checkpoints, trace and report of a previous run. Every worker calls it before
/// its first step, because hosts need not share the folder.
Result<void> prepare_run_folder(const std::filesystem::path& folder, RunFolderUse use);

}  // namespace rannc::tools
