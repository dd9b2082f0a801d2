/// Checks operand sizes that ONNX fixes but elementwise tasks would broadcast.
#pragma once

#include <string_view>

#include "frontend/onnx/internal/translate/node.h"

namespace rannc::frontend {

/// Whether the operand broadcasts to `onto` without enlarging it. Otherwise the node fails, and the message calls the
/// operand `role`. Symbolic sizes are left to the tasks.
bool stretches_to(Node& node, size_t operand, std::string_view role, const ir::Shape& onto);
/// Whether the operand has one element. Otherwise the node fails.
bool is_one_element(Node& node, size_t operand, std::string_view role);

}  // namespace rannc::frontend
