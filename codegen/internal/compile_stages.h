/// Compiles the stages of a bundle that is being written.
#pragma once

#include <string>

#include "codegen/bundle_writer.h"

namespace rannc::codegen {

/// Compiles the sources of all stages, as many at a time as there are processors.
Result<void> compile_stages(const NativeForm& form, size_t stages, const std::string& folder);

/// Copies `program` as the executable of every stage: one file with several names where the file system has hard links.
/// Empty: none. The executables must not exist.
Result<void> write_executables(const std::string& program, size_t stages, const std::string& folder);

}  // namespace rannc::codegen
