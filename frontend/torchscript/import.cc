#include "frontend/torchscript/import.h"

#include "frontend/torchscript/internal/archive/script.h"
#include "frontend/torchscript/internal/exported/exported.h"

namespace rannc::frontend {

Result<Imported> read_torch(const std::filesystem::path& path, const ImportOptions& options) {
  RANNC_ASSIGN(torchscript::ArchiveFile file, torchscript::ArchiveFile::open(path, options.max_file_bytes));
  if (torchscript::is_exported(file)) return torchscript::read_exported(file, options);
  return torchscript::read_script(std::move(file), options);
}

}  // namespace rannc::frontend
