/// Computes the results of one task on stored operands.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "passes/evaluator.h"

namespace rannc::passes {

/// Returns the results of `op`, with the types that its rule gave. Integers and booleans are computed by the rules of
/// `ir/op/fold.h`, other results by `evaluator`, which may be null. A null operand is absent. Returns an empty list if
/// the results cannot be computed.
std::vector<ir::StoredTensor> compute(const ir::OpInfo& op, std::span<const ir::StoredTensor* const> operands,
                                      const ir::Attributes& attributes, std::span<const ir::ValueType> types,
                                      const Evaluator* evaluator);

/// A task with more floating-point operations is not folded, but computed when the program runs.
constexpr int64_t kMostFoldedWork = int64_t{1} << 33;

}  // namespace rannc::passes
