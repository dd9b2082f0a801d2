/// Saves TorchScript source as an archive that any LibTorch loads.
#pragma once

#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::codegen {

/// Compiles `source` (one function `forward`) and writes `path`. `name` becomes the module's class. An error of
/// LibTorch's compiler is our bug or a lowering of the user's; it is handed on with the line that it names.
Result<void> save_torchscript(const std::string& source, const std::string& name, const std::string& path);

}  // namespace rannc::codegen
