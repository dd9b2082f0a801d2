/// Runs a lowering call by call through LibTorch's dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/op/aten.h"

namespace rannc::runtime {

struct AtenRun {
  std::span<const std::optional<at::Tensor>> operands;  ///< of the task; nullopt if absent
  const ir::Bindings& sizes;                            ///< values of the symbols
  at::Device device = at::kCPU;
  bool training = true;
};

/// Runs the lowering and returns its results, recorded by autograd if an operand requires a gradient. The error for an
/// unbound symbol names it. Exceptions of kernels pass through.
Result<std::vector<at::Tensor>> run_lowering(const ir::aten::Lowering& lowering, const AtenRun& run);

/// Returns an error that names the call if its schema is not registered or an argument does not match it.
Result<void> check_call(const ir::aten::Call& call);

}  // namespace rannc::runtime
