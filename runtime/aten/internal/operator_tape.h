/// The tape of one operator call, carried by a tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

/// A recorded call.
struct OperatorTape {
  std::vector<at::Tensor> leaves;              ///< wanted operands
  std::vector<torch::autograd::Edge> results;  ///< by result; invalid if its value depends on no leaf
};

/// Returns a tensor of `bytes` bytes (u8) that owns the tape. It has no data: any access to its elements fails.
at::Tensor carry(OperatorTape tape, int64_t bytes);

/// Returns the gradients of the leaves from those of the results (undefined: none). Consumes the tape if `carrier` is
/// the only reference to it. Fails if the tensor carries no tape, or that of another number of results.
Result<std::vector<at::Tensor>> run_tape(const at::Tensor& carrier, const std::vector<at::Tensor>& gradients);

}  // namespace rannc::runtime
