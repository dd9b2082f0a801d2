#include "tools/run/output_parts.h"

#include <fmt/format.h>

#include "ir/base/replacement.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

fs::path part_file(const fs::path& folder, uint32_t rank) {
  return folder / fmt::format(".outputs-{}.safetensors", rank);
}

/// Reads and removes a file.
Result<std::string> take_file(const std::string& path) {
  auto bytes = read_file(path);
  std::error_code ignored;
  fs::remove(path, ignored);
  return bytes;
}

}  // namespace

Result<void> gather_parts(runtime::Trainer& trainer, runtime::Outputs& outputs, const fs::path& folder, uint32_t rank) {
  const std::string file = part_file(folder, rank).string();
  Result<std::string> own = std::string();
  if (rank > 0) {
    const Result<void> written = outputs.write_part(file);
    own = written.ok() ? take_file(file) : written.diagnostic();
  }
  RANNC_TRY(trainer.first_failure(own.ok() ? Result<void>() : own.diagnostic()));
  return trainer.gather(*own, [&](uint32_t worker, const std::string& part) -> Result<void> {
    if (worker == 0) return {};
    const fs::path copy = part_file(folder, worker);
    RANNC_TRY(write_file(copy.string(), part));
    const Result<void> added = outputs.add_part(copy.string());
    std::error_code ignored;
    fs::remove(copy, ignored);
    return added;
  });
}

}  // namespace rannc::tools
