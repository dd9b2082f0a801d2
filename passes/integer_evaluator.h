/// Integer and boolean arithmetic on stored constants, built in.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "passes/evaluator.h"

namespace rannc::passes {

/// The outputs of one execution of a core operator all of whose operands and results are integers or booleans; `types`
/// are those its type rule gave, made of integers. Nothing where the operator is not covered, an index is outside, a
/// divisor is zero, or the bytes cannot be read: the task then stays. Wraps as int64 does.
std::optional<std::vector<Tensor>> evaluate_integers(const ir::OpInfo& op, std::span<const Tensor* const> operands,
                                                     const ir::Attributes& attributes,
                                                     std::span<const ir::ValueType> types);

}  // namespace rannc::passes
