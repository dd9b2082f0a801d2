/// Saves TorchScript source as an archive that LibTorch can load.
#pragma once

#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::codegen {

/// Compiles `source` (one function `forward`) and writes it to `path`. `name` becomes the module's class. An error of
/// LibTorch's compiler is a bug in rannc or in a user's lowering. It is returned with the line that it names.
Result<void> save_torchscript(const std::string& source, const std::string& name, const std::string& path);

}  // namespace rannc::codegen
