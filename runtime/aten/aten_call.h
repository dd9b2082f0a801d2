/// Runs a lowering by LibTorch's dispatcher, call by call, without text in between.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/op/aten.h"

namespace rannc::runtime {

struct AtenRun {
  std::span<const std::optional<at::Tensor>> operands;  ///< of the task; nothing: absent
  const ir::Bindings& sizes;                            ///< of the symbols
  at::Device device = at::kCPU;
  bool training = true;
};

/// The results, with a tape where an operand wants a gradient. A diagnostic names a symbol without a size; what the
/// kernels throw is thrown.
Result<std::vector<at::Tensor>> run_lowering(const ir::aten::Lowering& lowering, const AtenRun& run);

/// An error that names the call where `schema` is not registered or an argument does not fit it.
Result<void> check_call(const ir::aten::Call& call);

}  // namespace rannc::runtime
