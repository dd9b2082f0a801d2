/// Integer and boolean arithmetic on stored constants, built in.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "passes/evaluator.h"

namespace rannc::passes {

/// Elements beyond which nothing is computed here.
constexpr int64_t kMostFoldedIntegers = int64_t{1} << 24;

/// Short names of the operators that are covered.
std::vector<std::string_view> folded_operators();

/// The outputs of one execution of a core operator all of whose operands and results are integers or booleans; `types`
/// are those its type rule gave, made of integers. Nothing where the operator is not covered, an index is outside, a
/// divisor is zero, an element lies beyond int64, there are too many, or the bytes cannot be read: the task then stays.
/// Wraps as the element type does.
std::optional<std::vector<Tensor>> evaluate_integers(const ir::OpInfo& op, std::span<const Tensor* const> operands,
                                                     const ir::Attributes& attributes,
                                                     std::span<const ir::ValueType> types);

}  // namespace rannc::passes
