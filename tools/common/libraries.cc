#include "tools/common/libraries.h"

namespace rannc::tools {

void add_library_flag(CLI::App& app, std::vector<std::string>& libraries) {
  app.add_option("--load-library", libraries,
                 "FILE: shared library of custom operators (TORCH_LIBRARY); a bundle records its path and digest")
      ->allow_extra_args(false);
}

Result<std::vector<runtime::Library>> load_libraries(const std::vector<std::string>& paths) {
  std::vector<runtime::Library> loaded;
  for (const std::string& path : paths) {
    RANNC_ASSIGN(runtime::Library library, runtime::load_library(path));
    loaded.push_back(std::move(library));
  }
  return loaded;
}

}  // namespace rannc::tools
