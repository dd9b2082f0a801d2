/// The folder of real exports with reference numbers.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace rannc::test {

/// `$RANNC_SHARED_DIR/data/models`, or beside the checkout; nothing where it is absent.
std::optional<std::filesystem::path> shared_models();
/// Its folders, by name; empty where it is absent.
std::vector<std::filesystem::path> shared_model_folders();
/// The small ones of the same form under tests/data, by name; there wherever the tests are.
std::vector<std::filesystem::path> small_model_folders();
std::string read_file(const std::filesystem::path& path);

}  // namespace rannc::test
