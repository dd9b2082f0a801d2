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

/// Returns the tensor contiguous in the memory format of its producing stage. The order of sums over the value and its
/// gradient then does not depend on the cut.
at::Tensor in_format(const at::Tensor& tensor, const Port& port);

/// The same, with the first element at a multiple of 64 bytes, as that of every new tensor. Products sum in an order
/// that depends on the layout and the alignment of their operands. Those of samples, of a replica's part and of
/// messages then do not depend on where in a larger tensor they lie, nor on the transport.
at::Tensor as_operand(const at::Tensor& tensor, const Port& port);

}  // namespace rannc::runtime
