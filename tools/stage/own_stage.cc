#include "tools/stage/own_stage.h"

#include <charconv>
#include <filesystem>

#include "runtime/bundle/bundle.h"

namespace rannc::tools {

Result<OwnStage> own_stage(const std::string& program) {
  namespace fs = std::filesystem;
  const fs::path path(program);
  const std::string name = path.filename().string();
  const size_t digits = name.find_first_of("0123456789");
  uint32_t stage = 0;
  const char* const end = name.data() + name.size();
  const bool numbered = digits != std::string::npos && std::from_chars(name.data() + digits, end, stage).ptr == end;
  std::error_code ignored;
  if (!numbered || name != runtime::executable_file(StageId(stage)) ||
      !fs::is_regular_file(path.parent_path() / runtime::kManifestFile, ignored)) {
    return error({.file = program},
                 "is not in a bundle: rannc-stage runs as the program stage0, stage1, … of a bundle, beside its "
                 "manifest.json");
  }
  return OwnStage{path.parent_path().string(), StageId(stage)};
}

}  // namespace rannc::tools
