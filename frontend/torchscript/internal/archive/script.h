/// Archives that `torch.jit.save` wrote: modules that were traced, scripted or frozen.
#pragma once

#include "frontend/import.h"
#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

/// What the module's `forward` does, run on what is known before it runs.
Result<Imported> read_script(ArchiveFile file, const ImportOptions& options);

}  // namespace rannc::frontend::torchscript
