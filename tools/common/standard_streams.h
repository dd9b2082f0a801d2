/// Standard streams whose failure neither interrupts the work nor stays unnoticed.
#pragma once

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// Prepares `stdin`, `stdout` and `stderr` for a program. Closed descriptors are reserved, so that no file that is
/// opened later receives what is printed. A print that fails is not an error by itself; `check_standard_output` tells.
/// A file that grows beyond the limit of its size (RLIMIT_FSIZE) is a write error, not the end of the process. To be
/// called before anything is printed; later calls forget the failures.
void open_standard_streams();

/// Writes what is buffered. An error if anything could not be written to standard output since
/// `open_standard_streams`, which a full disk and a closed descriptor cause.
Result<void> check_standard_output();

}  // namespace rannc::tools
