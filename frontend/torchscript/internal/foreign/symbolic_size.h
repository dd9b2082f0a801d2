/// Converts size expressions to symbolic sizes of meta tensors and back.
#pragma once

#include <c10/core/SymInt.h>

#include <optional>

#include "ir/dim/dim.h"

namespace rannc::frontend::torchscript {

/// Returns a size that LibTorch can compute with. Symbols are at least 2, as LibTorch itself assumes, so no symbol
/// equals 1. A kernel that needs an undetermined comparison or the number itself gets a c10::Error.
c10::SymInt symbolic_size(const ir::Dim& dim);
/// The inverse. Returns nothing if `size` is no such expression.
std::optional<ir::Dim> as_dim(const c10::SymInt& size);

}  // namespace rannc::frontend::torchscript
