/// Parses archives of `torch.export.save`: one graph of calls with a signature.
#pragma once

#include "frontend/import.h"
#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

/// Whether an archive declares itself as one of these, in the current or the earlier layout.
bool is_exported(const ArchiveFile& file);

/// Reads the exported program. The file contains input types, output names and the list of parameters. Size symbols
/// keep their names in the file unless the options of an import rename inputs.
Result<ImportParsed> parse_exported(ArchiveFile file);

}  // namespace rannc::frontend::torchscript
