/// Translates einsum into core operators, for all frontends.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// The task that computes the result of the operator. The caller emits it under the operator's name.
struct LastTask {
  std::string op;
  ValueId operand;
  ir::Attributes attributes;
};

/// Translates an einsum of any number of operands into a sequence of products of two operands. Samples keep their axis.
/// `equation` may contain ellipses and repeated letters and may omit the result, as in ONNX and PyTorch. Axes of extent
/// 1 are broadcast. Errors latch in `writer`, and the function returns nullopt.
std::optional<LastTask> einsum(TaskWriter& writer, std::string_view equation, std::span<const ValueId> operands);

}  // namespace rannc::frontend
