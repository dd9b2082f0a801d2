/// Runs `rannc-compile` on a published profile.
#pragma once

#include <optional>
#include <string>

#include "ir/base/diagnostic.h"
#include "tools/compile/plan_flags.h"

namespace rannc::tools {

/// A request to plan a profile.
struct ProfileCommand {
  std::string file;
  std::optional<uint64_t> profile_batch;  ///< samples at which it was measured; empty: from the name, or 1
  PlanFlags plan;
  std::string saved;    ///< file of a saved plan, taken instead of a search; empty: none
  bool exact = false;   ///< placement graphs: search until the gap is closed
  std::string emit;     ///< `blocks`, `plan`, `schedule`; empty: the summary
  std::string summary;  ///< `json`, or empty
  std::string output;   ///< `.json`: the plan; `.txt`: the profile with each node's stage; empty: none
  bool explain = false;
  bool replace = false;  ///< overwrite an existing file
};

/// Whether a file's extension is that of a published profile: `.txt` (PipeDream, DAPPLE) or `.json` (placement graphs).
bool is_profile(const std::string& file);

/// Returns a usage error if the request does not suit the profile's format.
Result<void> check_profile_command(const ProfileCommand& command);

/// Reads and plans the profile, then prints and writes the result. An output file is either complete or absent. Ctrl-C
/// stops the search, not the program.
Result<void> run_profile_command(const ProfileCommand& command);

}  // namespace rannc::tools
