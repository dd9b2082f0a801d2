/// Imports archives of `torch.export.save`: one graph of calls with a signature.
#pragma once

#include "frontend/import.h"
#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

/// Whether an archive declares itself as one of these, in the current or the earlier layout.
bool is_exported(const ArchiveFile& file);

/// Returns the graph of the exported program. The file contains input types, output names and the list of parameters.
/// Size symbols keep their names in the file unless `options` renames inputs.
Result<Imported> read_exported(const ArchiveFile& file, const ImportOptions& options);

}  // namespace rannc::frontend::torchscript
