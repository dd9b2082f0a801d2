/// `rannc-compile` on a published profile: everything after the flags.
#pragma once

#include <string>

#include "tools/compile/profile_plan.h"

namespace rannc::tools {

/// What is to be done with a profile.
struct ProfileCommand {
  ProfileRequest request;
  bool exact = false;   ///< placement graphs: search until the gap is closed
  std::string emit;     ///< `blocks`, `plan`, `schedule`; empty: the summary
  std::string summary;  ///< `json`, or empty
  std::string output;   ///< `.json`: the plan; `.txt`: the profile with a stage for every node; empty: none
  bool explain = false;
  bool replace = false;  ///< write over a file that is there
};

/// Whether a file is a published profile by its name: `.txt` (PipeDream, DAPPLE) or `.json` (placement graphs).
bool is_profile(const std::string& file);

/// What cannot be had of this profile, whatever it holds: a usage error.
Result<void> check_profile_command(const ProfileCommand& command);

/// Reads, plans, prints and writes. An output file is whole or absent. Ctrl-C stops the search, not the program.
Result<void> run_profile_command(const ProfileCommand& command);

}  // namespace rannc::tools
