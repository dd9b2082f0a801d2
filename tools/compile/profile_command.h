/// Runs `rannc-compile` on a published profile.
#pragma once

#include <string>

#include "ir/base/diagnostic.h"
#include "tools/compile/compile_command.h"

namespace rannc::tools {

/// Whether a file's extension is that of a published profile: `.txt` (PipeDream, DAPPLE) or `.json` (placement graphs).
bool is_profile(const std::string& file);

/// Returns a usage error if the request does not suit the profile's format.
Result<void> check_profile_command(const CompileCommand& command);

/// Reads and plans the profile, then prints and writes the result. An output file is either complete or absent. Ctrl-C
/// stops the search, not the program.
Result<void> run_profile_command(const CompileCommand& command);

}  // namespace rannc::tools
