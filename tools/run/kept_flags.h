/// Keeps the flags of a run for its resumption.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/run/run_flags.h"

namespace rannc::tools {

/// What a resumed run does about a flag of the run that it continues.
enum class FlagScope : uint8_t {
  kRun,         ///< uses it, unless the command line has another; kept in the run's folder
  kCheckpoint,  ///< the same; kept in each checkpoint
  kSamples,     ///< requires it again; other samples are reported
  kReported,    ///< reports that it lacks it
  kInvocation,  ///< nothing: the flag concerns one invocation only
};

/// Returns the scope of a flag of `add_run_flags`, such as `--steps`; nullopt for other names.
std::optional<FlagScope> scope_of(std::string_view flag);

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
