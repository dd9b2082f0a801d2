/// Results of one task on stored operands.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "passes/evaluator.h"

namespace rannc::passes {

/// The results of `op`, of the types that its rule gave: of integers and truth values by the rules of `ir/op/fold.h`,
/// else by an evaluator, which may be null. A null operand is absent. Empty where nobody can compute them.
std::vector<ir::StoredTensor> compute(const ir::OpInfo& op, std::span<const ir::StoredTensor* const> operands,
                                      const ir::Attributes& attributes, std::span<const ir::ValueType> types,
                                      const Evaluator* evaluator);

/// Floating-point operations of one task that a compiler had better leave to the one time when the program runs.
constexpr int64_t kMostFoldedWork = int64_t{1} << 33;

}  // namespace rannc::passes
