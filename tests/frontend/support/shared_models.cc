#include "tests/frontend/support/shared_models.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace rannc::test {

namespace fs = std::filesystem;

std::optional<fs::path> shared_models() {
  const char* const given = std::getenv("RANNC_SHARED_DIR");
  const fs::path shared = given ? fs::path(given) : fs::path(RANNC_SOURCE_DIR) / ".." / "shared";
  const fs::path models = shared / "data" / "models";
  return fs::is_directory(models) ? std::optional(models) : std::nullopt;
}

namespace {

std::vector<fs::path> model_folders(const fs::path& models) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(models)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

std::vector<fs::path> shared_model_folders() {
  const auto models = shared_models();
  return models ? model_folders(*models) : std::vector<fs::path>{};
}

std::vector<fs::path> small_model_folders() { return model_folders(fs::path(RANNC_SOURCE_DIR) / "tests" / "data"); }

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace rannc::test
