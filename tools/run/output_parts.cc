#include "tools/run/output_parts.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "ir/base/replacement.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

fs::path part_file(const fs::path& folder, uint32_t rank) {
  return folder / fmt::format(".outputs-{}.safetensors", rank);
}

/// Reads and removes a file.
std::string take_file(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  std::error_code ignored;
  fs::remove(path, ignored);
  return std::move(bytes).str();
}

}  // namespace

Result<void> gather_parts(runtime::Trainer& trainer, runtime::Outputs& outputs, const fs::path& folder, uint32_t rank) {
  const fs::path own = part_file(folder, rank);
  Result<void> written;
  if (rank > 0) written = outputs.write_part(own.string());
  RANNC_TRY(trainer.first_failure(written));
  return trainer.gather(rank > 0 ? take_file(own) : "", [&](uint32_t worker, const std::string& part) -> Result<void> {
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
