/// What the user's environment says about programs and folders.
#pragma once

#include <string>

namespace rannc::tools {

/// Value of an environment variable; empty if it is not set.
std::string environment_variable(const char* name);

/// Path of the program `name`, which is a path or a name in the PATH; empty if there is none.
std::string find_program(const std::string& name);

/// The user's cache folder of rannc for `what`, which need not exist; empty if the user has no home.
std::string cache_folder(const std::string& what);

}  // namespace rannc::tools
