/// Parses archives of `torch.jit.save`: traced, scripted or frozen modules.
#pragma once

#include "frontend/import.h"
#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

/// Loads the module. Its import is the graph of `forward`, interpreted symbolically.
Result<ImportParsed> parse_script(ArchiveFile file);

}  // namespace rannc::frontend::torchscript
