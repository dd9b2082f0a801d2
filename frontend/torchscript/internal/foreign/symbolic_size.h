/// Sizes of meta tensors that are expressions of symbols.
#pragma once

#include <c10/core/SymInt.h>

#include <optional>

#include "ir/dim/dim.h"

namespace rannc::frontend::torchscript {

/// A size as LibTorch computes with it. Symbols are at least 2, as LibTorch itself takes them: what asks whether a size
/// is 1 is told no. Where a kernel asks for what is not certain then, or for the number, it throws c10::Error.
c10::SymInt symbolic_size(const ir::Dim& dim);
/// The way back; nothing where it is no such expression.
std::optional<ir::Dim> as_dim(const c10::SymInt& size);

}  // namespace rannc::frontend::torchscript
