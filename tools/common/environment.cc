#include "tools/common/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace rannc::tools {

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return access(name.c_str(), X_OK) == 0 ? std::filesystem::absolute(name).string() : "";
  std::istringstream folders(environment_variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string cache_folder(const std::string& what) {
  std::string cache = environment_variable("XDG_CACHE_HOME");
  if (cache.empty() && !environment_variable("HOME").empty()) cache = environment_variable("HOME") + "/.cache";
  return cache.empty() ? "" : cache + "/rannc/" + what;
}

}  // namespace rannc::tools
