#include "frontend/torchscript/import.h"

#include "frontend/torchscript/internal/archive/script.h"
#include "frontend/torchscript/internal/exported/exported.h"

namespace rannc::frontend {

Result<ImportParsed> parse_torch(const ModelSource& source, uint64_t max_bytes) {
  RANNC_ASSIGN(torchscript::ArchiveFile file, torchscript::ArchiveFile::open(source, max_bytes));
  return torchscript::is_exported(file) ? torchscript::parse_exported(std::move(file))
                                        : torchscript::parse_script(std::move(file));
}

Result<Imported> read_torch(const std::filesystem::path& path, const ImportOptions& options) {
  RANNC_ASSIGN(const ImportParsed import, parse_torch(path, options.max_file_bytes));
  return import(options);
}

}  // namespace rannc::frontend
