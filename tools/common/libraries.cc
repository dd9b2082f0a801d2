#include "tools/common/libraries.h"

namespace rannc::tools {

Result<std::vector<runtime::Library>> load_libraries(const std::vector<std::string>& paths) {
  std::vector<runtime::Library> loaded;
  for (const std::string& path : paths) {
    RANNC_ASSIGN(runtime::Library library, runtime::load_library(path));
    loaded.push_back(std::move(library));
  }
  return loaded;
}

}  // namespace rannc::tools
