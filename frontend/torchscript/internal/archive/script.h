/// Imports archives of `torch.jit.save`: traced, scripted or frozen modules.
#pragma once

#include "frontend/import.h"
#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

/// Returns the graph of the module's `forward`, interpreted symbolically.
Result<Imported> read_script(ArchiveFile file, const ImportOptions& options);

}  // namespace rannc::frontend::torchscript
