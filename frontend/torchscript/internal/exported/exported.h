/// Archives that `torch.export.save` wrote: one graph of calls, with a signature.
#pragma once

#include "frontend/import.h"
#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

/// Whether an archive says of itself that it is one of these, of the present layout or of the earlier one.
bool is_exported(const ArchiveFile& file);

/// What the exported program does. Types of inputs, which tensors are parameters, and the names of outputs are in the
/// file; symbols of sizes are called as there, unless `options` calls inputs otherwise.
Result<Imported> read_exported(const ArchiveFile& file, const ImportOptions& options);

}  // namespace rannc::frontend::torchscript
