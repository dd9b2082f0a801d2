/// Keeps the flags of a run for its resumption.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/run/run_flags.h"

namespace rannc::tools {

/// Differences of a resumed run.
struct KeptFlags {
  std::vector<std::string> used;     ///< flags that the command line lacks: `--epochs 3`
  std::vector<std::string> changed;  ///< `--epochs 3 instead of 2`
  std::vector<std::string> lacking;  ///< flags with scope `kReported`
  bool unknown = false;              ///< the folder does not have the run's flags
};

/// Adds the flags of the run in this folder, which `keep_flags` wrote, to those of the command line. An error names the
/// file: it is damaged.
Result<KeptFlags> use_kept_flags(const std::filesystem::path& folder, RunFlags& flags);

/// Writes the flags into the run's folder.
Result<void> keep_flags(const std::filesystem::path& folder, const RunFlags& flags);

}  // namespace rannc::tools
