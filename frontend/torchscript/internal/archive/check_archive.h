/// Checks what a TorchScript archive of a stranger would have LibTorch do, before LibTorch loads it.
#pragma once

#include <cstdint>
#include <functional>

#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

/// Checks the code and the pickles of an archive (`check_code.h`, `check_pickle.h`). Returns the bytes of stack for
/// loading and importing it. Errors name the file, the record, and the limit.
Result<uint64_t> check_archive(const ArchiveFile& file);

/// Calls `run` on a thread of its own with a stack of so many bytes, of which only those in use take memory. An error
/// if the system provides no such stack. Exceptions of `run` are thrown here.
Result<void> run_on_stack(uint64_t bytes, const std::function<void()>& run);

}  // namespace rannc::frontend::torchscript
