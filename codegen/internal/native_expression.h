/// Expressions of loops as C++.
#pragma once

#include <functional>
#include <string>

#include "ir/op/loop_expression.h"

namespace rannc::codegen {

/// Prints an expression with the fewest parentheses. `name` gives the variable of an operand or a statement.
std::string native_expression(const ir::LoopExpression& expression,
                              const std::function<std::string(const ir::LoopNode&)>& name);

}  // namespace rannc::codegen
