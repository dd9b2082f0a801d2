#include "tools/compiler/model_format.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace rannc::tools {

namespace {

constexpr std::string_view kZip("PK\3\4", 4);

bool is_archive(const std::string& path) {
  std::array<char, kZip.size()> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), first.size());
  return file.gcount() == static_cast<std::streamsize>(first.size()) &&
         std::equal(first.begin(), first.end(), kZip.begin());
}

}  // namespace

ModelFormat model_format(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".rir") return ModelFormat::kText;
  if (extension == ".pt2") return ModelFormat::kExported;
  const bool named = extension == ".pt" || extension == ".pth" || extension == ".ts";
  return named || is_archive(path) ? ModelFormat::kTorchScript : ModelFormat::kOnnx;
}

}  // namespace rannc::tools
