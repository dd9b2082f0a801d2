#include "tools/run/output_parts.h"

#include <fmt/format.h>

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

fs::path part_file(const fs::path& folder, uint32_t rank) {
  return folder / fmt::format(".outputs-{}.safetensors", rank);
}

Result<void> add_parts(runtime::Outputs& outputs, const fs::path& folder, uint32_t workers) {
  for (uint32_t rank = 1; rank < workers; ++rank) {
    RANNC_TRY(outputs.add_part(part_file(folder, rank).string()));
    std::error_code ignored;
    fs::remove(part_file(folder, rank), ignored);
  }
  return {};
}

}  // namespace

Result<void> gather_parts(runtime::Trainer& trainer, runtime::Outputs& outputs, const fs::path& folder, uint32_t rank,
                          uint32_t workers) {
  Result<void> own;
  if (rank > 0) own = outputs.write_part(part_file(folder, rank).string());
  RANNC_ASSIGN(const bool parts, trainer.all_agree(own.ok()));
  if (parts && rank == 0) own = add_parts(outputs, folder, workers);
  RANNC_ASSIGN(const bool gathered, trainer.all_agree(own.ok()));
  RANNC_TRY(own);
  if (!parts || !gathered) return error("the outputs were discarded because another worker could not write its part");
  return {};
}

}  // namespace rannc::tools
