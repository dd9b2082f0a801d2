/// Sizes of operands that ONNX fixes and that elementwise tasks would stretch.
#pragma once

#include <string_view>

#include "frontend/onnx/internal/translate/node.h"

namespace rannc::frontend {

/// Whether the operand, which `role` names, stretches to `onto` without making it larger; a failure of the node where
/// it does not. Sizes that are not numbers are left to the tasks.
bool stretches_to(Node& node, size_t operand, std::string_view role, const ir::Shape& onto);
/// Whether the operand has one element; a failure of the node where it has more.
bool is_one_element(Node& node, size_t operand, std::string_view role);

}  // namespace rannc::frontend
