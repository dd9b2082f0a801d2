/// What the engines share around the calls of a stage's program.
#pragma once

#include <ATen/ATen.h>

#include "runtime/execute/program.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Returns the sizes of a call. The error for a size without a value names it.
Result<ir::Bindings> bindings_of(const Signature& signature, const At& at);

/// Copies a scalar that keeps a larger buffer alive. LibTorch's reduced `mse_loss` returns a scalar in a buffer of its
/// operands' size, and a loss lives until the end of the step.
at::Tensor without_buffer(at::Tensor output);

/// Returns the tensor in the memory format of its producing stage. The order of sums over the value and its gradient
/// then does not depend on the cut.
at::Tensor in_format(const at::Tensor& tensor, const Port& port);

/// The same, and contiguous in the default format if the port has that.
at::Tensor in_one_piece(const at::Tensor& tensor, const Port& port);

}  // namespace rannc::runtime
