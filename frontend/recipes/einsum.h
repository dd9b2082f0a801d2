/// Einsum on core operators, for all frontends.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// The task whose result is the operator's: the caller emits it, under the operator's name.
struct LastTask {
  std::string op;
  ValueId operand;
  ir::Attributes attributes;
};

/// Translates an einsum of any number of operands into products of two operands, one after the other, so that samples
/// keep their axis. `equation` has letters, ellipses, repeated letters and an implied result, as ONNX and PyTorch have
/// them. An axis of extent 1 stretches to that of the others. Errors latch in `writer`, and there is no task then.
std::optional<LastTask> einsum(TaskWriter& writer, std::string_view equation, std::span<const ValueId> operands);

}  // namespace rannc::frontend
